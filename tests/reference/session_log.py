"""A session's log as plainly as it can be said: a list of steps, from which an undo takes the author's last."""


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
        """Item → last word, in the order of the last words."""
        said = {}
        for _, marks in self.steps:
            for item, kind in marks.items():
                said.pop(item, None)
                said[item] = kind
        return said
