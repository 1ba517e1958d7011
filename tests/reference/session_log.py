"""Reference implementation of a session's log: a list of steps, from which undo removes the author's last one."""


class PlainLog:
    def __init__(self, marks):
        self.steps = [(None, dict(marks))]

    def mark(self, author, marks):
        self.steps.append((author, dict(marks)))

    def undo(self, author):
        for number in reversed(range(len(self.steps))):
            if self.steps[number][0] == author:
                return self.steps.pop(number)[1]
        return {}

    def marks(self):
        """Return {item: latest mark}, in the order of these marks."""
        latest = {}
        for _, marks in self.steps:
            for item, kind in marks.items():
                latest.pop(item, None)
                latest[item] = kind
        return latest
