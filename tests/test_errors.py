import re

from lookalike import errors


def test_the_docstring_lists_every_error():
    classes = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, Exception) and not issubclass(value, Warning)
    ]
    drawn = re.findall(r"\b\w+Error\b", (errors.__doc__ or "").split("The command line")[0])
    assert {cls.__name__ for cls in classes} <= set(drawn)
    assert all(issubclass(cls, errors.LookalikeError) for cls in classes)


def test_bad_input_is_also_a_value_error_and_a_missing_package_an_import_error():
    assert issubclass(errors.InputError, ValueError)
    assert issubclass(errors.MissingError, ImportError)


def test_an_unknown_name_without_a_near_one_gets_no_hint():
    assert "Did you mean" not in str(errors.UnknownNameError("coder", "zzz", ["itq"]))


def test_only_some_of_many_known_names_are_listed():
    message = str(errors.UnknownNameError("class", "class 99x", [f"class {i:03}" for i in range(1_000)]))
    assert message.endswith("class 039 and 960 more. Did you mean 'class 999'?")
