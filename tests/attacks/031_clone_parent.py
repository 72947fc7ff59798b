"""A child that isn't its own: CLONE_PARENT makes it the runner's; a vfork and nohup beside it."""

import subprocess
import time

CLONE_PARENT, SIGCHLD = 0x8000, 17
reader, writer = os.pipe()
if not call(56, 220, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0):
    os.setsid()
    os.write(writer, b"x")
    time.sleep(300)
    os._exit(0)
os.read(reader, 1)
subprocess.Popen(
    ["nohup", "sleep", "300"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
)
print("started")
