"""The text of a row made from its columns, by a Jinja2 template in a sandbox."""

from collections.abc import Mapping

from jinja2 import StrictUndefined, TemplateSyntaxError, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from batchtts.errors import InputError


class _EmptyCell(StrictUndefined):
    """Fails when it is spoken, but may be asked for."""

    def __bool__(self) -> bool:  # type: ignore[override]  # its parent never returns
        return False


class TextTemplate:
    """A compiled `input.template`.

    Columns are variables, `{{ name }}`; one whose name is no word is `{{ row["first name"] }}`.
    An empty cell counts as missing: no row is to say "Hello , welcome." What may be empty is asked
    for, `{% if title %}`, or has a default, `{{ title | default("") }}`.
    """

    def __init__(self, source: str) -> None:
        """Compile it.

        Raises:
            InputError: it is no template.
        """
        environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined)
        # Without range() and the like, no template can eat the memory.
        environment.globals.clear()
        try:
            tree = environment.parse(source)
        except TemplateSyntaxError as error:
            message = f"input.template: line {error.lineno}: {error.message}"
            raise InputError(message) from error
        self._template = environment.from_string(source)
        self.columns = tuple(sorted(meta.find_undeclared_variables(tree) - {"row"} | _by_row(tree)))
        """The columns that it needs."""
        self._empty = {
            name: _EmptyCell(f"it needs {name!r}, and that cell is empty") for name in self.columns
        }

    def render(self, cells: Mapping[str, str]) -> str:
        """Make the text of one row.

        Raises:
            ValueError: this row cannot be rendered.
        """
        filled: dict[str, object] = dict(cells)
        for name in self.columns:
            if not cells.get(name, "").strip():
                filled[name] = self._empty[name]
        try:
            return self._template.render(filled, row=filled)
        except Exception as error:  # a template may divide by a column: anything can happen
            message = f"the template fails on this row: {error}"
            raise ValueError(message) from error


def _by_row(tree: nodes.Template) -> set[str]:
    """The columns that are asked for as row["..."]."""
    return {
        item.arg.value
        for item in tree.find_all(nodes.Getitem)
        if isinstance(item.node, nodes.Name)
        and item.node.name == "row"
        and isinstance(item.arg, nodes.Const)
    }
