"""Ways to get a box, and what runs inside one."""
