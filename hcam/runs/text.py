"""Text from outside, such as the name of a folder, made safe to show."""


def printable(text: object) -> str:
    r"""Returns the text on one line, with everything that a terminal could act on as an escape such as \x1b or \n.

    What is escaped: control characters, line breaks, marks that change the direction of writing, characters that no
    font has, and the halves of characters that stand for the undecodable bytes of a file's name.
    """
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)
