"""LiveCodeBench's own files: problems and generations in, scores and an account of changed verdicts out."""
