"""MicroCoder-GRPO: the trainer that takes its rewards from the service."""
