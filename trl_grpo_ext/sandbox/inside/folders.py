"""Folders that an untrusted program has filled: how much is in them, and their removal."""

import contextlib
import os
import subprocess


_MOST_ENTRIES = 10_000  # looked at; a folder with more counts as too full


def remove_folder(path: str) -> None:
    """Remove a folder and all that is in it, however deep."""
    try:
        os.rmdir(path)  # most programs leave nothing
    except FileNotFoundError:
        return
    except OSError:
        # Deeper than a path may be long, and than Python may recurse: a tool that is made for it.
        command = ["rm", "-rf", "--", path]
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def folder_bytes(path: str) -> int:
    """How much the files in a folder take. What cannot be looked at, since it is too much, counts as endless."""
    total, entries, folders = 0, 0, [path]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as listed:
            for entry in listed:
                entries += 1
                if entries > _MOST_ENTRIES:
                    return 1 << 62
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    total += entry.stat(follow_symlinks=False).st_size
    return total
