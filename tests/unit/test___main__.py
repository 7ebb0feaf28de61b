"""kcl.__main__: the command line is click's, but for a program that is run."""


def imported(child, *arguments):
    """Run a command line; returns what it imported of click and kcl's commands, and its status."""
    done = child.python("-X", "importtime", "-m", "kcl", *arguments)
    names = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    return {"click", "kcl.cli"} & names, done.returncode


def test_a_program_is_run_without_click(child):
    assert imported(child, "run", "-c", "raise SystemExit(3)") == (set(), 3)


def test_every_other_command_line_and_one_that_needs_an_answer_is_clicks(child):
    assert imported(child, "--version") == ({"click", "kcl.cli"}, 0)
    assert imported(child, "run", "--help") == ({"click", "kcl.cli"}, 0)
