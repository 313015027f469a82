"""`python -m cudalab`: the command, where its folder is not on the PATH."""

from cudalab.cli import main

if __name__ == "__main__":
    main(prog_name="cudalab")
