"""Prints what is wrong and ends well, in every way that there is to end well."""

import sys

how = input()
print("wrong", flush=True)
if how == "exit":
    sys.exit(0)
elif how == "_exit":
    os._exit(0)
elif how == "exec":
    os.execv("/bin/true", ["true"])
elif how == "thread":
    import threading

    threading.Thread(target=os._exit, args=(0,)).start()
