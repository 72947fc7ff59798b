"""Executes programs with arguments and an environment that are too large."""

for name, arguments, environment in (
    ("arguments", ["x" * (1 << 17)] * 64, {}),
    ("one argument", ["x" * (1 << 18)], {}),
    ("environment", ["true"], {f"V{number}": "x" * 100_000 for number in range(200)}),
):
    attempt(name, lambda arguments=arguments, environment=environment: os.execve("/bin/true", arguments, environment))
