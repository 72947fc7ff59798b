"""Types into the operator's terminal, or takes one for itself."""

import fcntl
import termios

attempt("/dev/tty", lambda: os.open("/dev/tty", os.O_RDWR))
attempt("/dev/console", lambda: os.open("/dev/console", os.O_RDWR))
for number in range(3):
    attempt(f"TIOCSTI {number}", lambda number=number: fcntl.ioctl(number, termios.TIOCSTI, b"x"))
    attempt(f"TIOCLINUX {number}", lambda number=number: fcntl.ioctl(number, 0x541C, b"\x03" + bytes(15)))
    attempt(f"TIOCSCTTY {number}", lambda number=number: fcntl.ioctl(number, termios.TIOCSCTTY, 1))
print("terminals:", sum(os.isatty(number) for number in range(3)))
