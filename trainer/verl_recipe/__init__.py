"""MicroCoder-GRPO in verl: the client's rewards, clip-higher by configuration, the mask as a trainer of verl's."""
