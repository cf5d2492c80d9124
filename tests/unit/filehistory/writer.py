"""An agent in a process of its own that edits and restores until it is killed; says on stdout what it has finished."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from unit.filehistory.rig import Played


async def main(root: Path, mode: str) -> None:
    played = Played(root)
    start = played.say()
    for number in range(10_000):
        if mode == "edit":
            await played.edit({"a.txt": f"a{number}\r\n".encode(), f"d/{number % 7}.txt": f"b{number}".encode()})
        elif mode == "restore":
            files = {f"f{one}.txt": f"{number}".encode() for one in range(6)}
            await played.edit({path: (b"x" * 10_000) + data for path, data in files.items()})
            await played.restore(start)
        else:
            name = await played.history.command_starts("s1", played.call())
            played.write("a.txt", f"c{number}")
            sys.stdout.write("running\n")
            sys.stdout.flush()
            await asyncio.sleep(60)
            await played.history.command_ended(name)
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
