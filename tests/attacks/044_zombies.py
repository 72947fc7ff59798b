"""Leaves as many zombies as there may be, and orphans that end on their own."""

for _ in range(40):
    if not os.fork():
        if not os.fork():
            os._exit(0)
        os._exit(0)
print("forty")
