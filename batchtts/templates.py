"""The text of a row made from its columns, by a Jinja2 template in a sandbox."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from batchtts.errors import InputError

if TYPE_CHECKING:
    from jinja2 import Template as JinjaTemplate


class TextTemplate:
    """A compiled `input.template`.

    Columns are variables, `{{ name }}`; one whose name is no word is `{{ row["first name"] }}`.
    """

    def __init__(self, source: str) -> None:
        """Compile it.

        Raises:
            InputError: the template is not one.
        """
        from jinja2 import StrictUndefined, TemplateSyntaxError, meta, nodes
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined)
        # Without range() and the like, no template can eat the memory.
        environment.globals.clear()
        try:
            tree = environment.parse(source)
        except TemplateSyntaxError as error:
            message = f"input.template: line {error.lineno}: {error.message}"
            raise InputError(message) from error
        by_row = {
            item.arg.value
            for item in tree.find_all(nodes.Getitem)
            if isinstance(item.node, nodes.Name)
            and item.node.name == "row"
            and isinstance(item.arg, nodes.Const)
        }
        self.columns = tuple(sorted((meta.find_undeclared_variables(tree) - {"row"}) | by_row))
        """The columns that it needs."""
        self._template: JinjaTemplate = environment.from_string(source)

    def render(self, cells: Mapping[str, str]) -> str:
        """Make the text of one row.

        Raises:
            ValueError: this row cannot be rendered.
        """
        try:
            return self._template.render(cells, row=cells)
        except Exception as error:  # a template may divide by a column: anything can happen
            message = f"the template fails on this row: {error}"
            raise ValueError(message) from error
