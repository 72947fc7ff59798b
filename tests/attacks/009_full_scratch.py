"""Fills scratch with gigabytes: many files, since one is limited by itself."""

written, refused = 0, "nothing"
for number in range(64):
    try:
        with open(f"part{number}", "wb", buffering=0) as file:
            for _ in range(16):
                written += file.write(b"x" * (1 << 20))
    except OSError as error:
        refused = errno.errorcode[error.errno]
        break
print("refused:", refused)
print("within 64 MiB:", written <= 64 << 20)
