"""A process that marks the items of a session one by one, for tests that kill it or run two at a time.

    python clicker.py COLLECTION SESSION AUTHOR FIRST LAST

It prints one line per committed mark.
"""

import sys

from lookalike import Collection


def main(where: str, session: str, author: str, first: int, last: int) -> None:
    with Collection(where) as collection:
        items = sorted(item.id for item in collection.items())
        open_session = collection.session(id=session, author=author)
        for number in range(first, last):
            kind = "relevant" if number % 2 == 0 else "irrelevant"
            open_session.mark(**{kind: items[number]})
            print(number, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
