"""The evaluator as a service: API, queue, workers, command line."""
