import pytest

from batchtts.errors import InputError
from batchtts.templates import TextTemplate


def test_a_template_names_the_columns_that_it_needs() -> None:
    template = TextTemplate(
        '{% if title %}{{ title }} {% endif %}{{ name }}, {{ row["home town"] }}'
    )
    assert template.columns == ("home town", "name", "title")


def test_filters_conditions_and_defaults_work() -> None:
    template = TextTemplate("{{ name | title }}{% if age | int > 40 %} senior{% endif %}")
    assert template.render({"name": "mina", "age": "41"}) == "Mina senior"
    template = TextTemplate('{% if title %}{{ title }} {% endif %}{{ name | default("you") }}')
    assert template.render({"title": "", "name": "Lee"}) == "Lee"
    assert template.render({"title": "Dr.", "name": " "}) == "Dr. you"
    assert template.render({}) == "you"


def test_an_empty_cell_is_never_spoken_as_a_gap() -> None:
    for source in ("Hello {{ name }}", "Hello {{ name | upper }}", 'Hello {{ row["name"] }}'):
        with pytest.raises(ValueError, match="it needs 'name', and that cell is empty"):
            TextTemplate(source).render({"name": "  "})


def test_quotes_and_marks_are_not_escaped() -> None:
    assert TextTemplate("{{ a }}").render({"a": "R&D <b>'x'"}) == "R&D <b>'x'"


@pytest.mark.parametrize(
    "source",
    [
        "{{ a.__class__.__mro__ }}",
        "{{ ''.__class__ }}",
        "{{ '{0.__class__}'.format(a) }}",
        "{% include 'other' %}",
        "{{ 1 / (a | length - 1) }}",
        "{{ 'x' * 10 ** 400 }}",
    ],
)
def test_what_a_template_must_not_do_is_the_problem_of_the_row(source: str) -> None:
    with pytest.raises(ValueError, match="the template fails on this row"):
        TextTemplate(source).render({"a": "x"})


def test_nothing_can_loop_for_ever() -> None:
    template = TextTemplate("{% for i in range(10 ** 9) %}x{% endfor %}")
    assert template.columns == ("range",)  # no such function: it must be a column


def test_a_broken_template_names_its_line() -> None:
    with pytest.raises(InputError, match=r"input.template: line 2: unexpected '}'"):
        TextTemplate("Hello\n{{ name }")
