"""`lookalike clip`: create a space for a network of pictures and texts, such as CLIP."""

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lookalike.cli.lazy import Lazy
from lookalike.cli.options import Json, Wait, Where, opened
from lookalike.cli.output import print_json, print_line, print_note
from lookalike.errors import InputError

if TYPE_CHECKING:
    from lookalike.collection import clip as networks
else:
    networks = Lazy("lookalike.collection.clip")


def clip(
    image: Annotated[str, typer.Argument(metavar="IMAGE.onnx", help="Part of the network for pictures.")],
    text: Annotated[str, typer.Argument(metavar="TEXT.onnx", help="Part of the network for texts.")],
    tokenizer: Annotated[str, typer.Argument(metavar="TOKENIZER.json", help="Tokenizer of the network.")],
    where: Where,
    name: Annotated[str, typer.Option("--name", help="Name of the space.")] = "clip",
    size: Annotated[int, typer.Option("--size", min=1, help="Side of the network's input, in pixels.")] = 224,
    mean: Annotated[
        str | None,
        typer.Option(
            "--mean",
            metavar="R,G,B",
            help="Subtracted from the pixels (0 to 255); one number or three. Default: that of CLIP.",
        ),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option("--scale", metavar="R,G,B", help="Divides the pixels after --mean. Default: that of CLIP."),
    ] = None,
    template: Annotated[
        list[str] | None,
        typer.Option(
            "--template", help="Prompt with {} for the text; repeatable, then averaged. Default: 'a photo of a {}'."
        ),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option("--length", min=1, help="Tokens per text. Default: as in the network or the tokenizer, or 77."),
    ] = None,
    pad: Annotated[
        int | None,
        typer.Option("--pad", min=0, help="Id of the token that fills short texts. Default: that of the tokenizer."),
    ] = None,
    image_output: Annotated[
        str | None,
        typer.Option("--image-output", metavar="TENSOR", help="Tensor with the vectors of pictures. Default: by name."),
    ] = None,
    text_output: Annotated[
        str | None,
        typer.Option("--text-output", metavar="TENSOR", help="Tensor with the vectors of texts. Default: by name."),
    ] = None,
    picture: Annotated[
        str | None, typer.Option("--picture", metavar="FILE", help="Picture to check the network with.")
    ] = None,
    words: Annotated[str | None, typer.Option("--words", help="What --picture shows, such as dog.")] = None,
    wait: Wait = 0.0,
    json: Json = False,
) -> int:
    """Create a space for your own CLIP, SigLIP or MobileCLIP.

    Both parts of the network are ONNX files. They are loaded, and the dimensions of their vectors compared. With
    --picture and --words, the words must fit the picture better than other words; otherwise, nothing is created.

    The next lookalike refresh computes the vectors of the pictures. The files must stay where they are.

    \b
    Examples:
      lookalike clip image.onnx text.onnx tokenizer.json --picture dog.jpg --words dog
      lookalike clip image.onnx text.onnx tokenizer.json --size 256 --mean 0 --scale 255 --pad 0
    """
    given: dict[str, Any] = {"mean": _numbers("--mean", mean), "scale": _numbers("--scale", scale)}
    network = networks.load_clip(  # before the collection is created
        image,
        text,
        tokenizer,
        name=name,
        size=size,
        template=template,
        length=length,
        pad=pad,
        image_output=image_output,
        text_output=text_output,
        picture=picture,
        words=words,
        **{option: value for option, value in given.items() if value is not None},
    )
    with opened(where, create=True, wait=wait) as collection:
        report = collection.add_loaded_clip(network)
        empty = not len(collection)
    if json:
        print_json(dataclasses.asdict(report))
    else:
        _print_report(report)
    if not report.cosines:
        print_note("Wrong options for pictures cause no error. To check them, add: --picture dog.jpg --words dog")
    print_note(f"Next, run: {'lookalike add FOLDER' if empty else 'lookalike refresh'}")
    return 0


def _print_report(report: "networks.ClipReport") -> None:
    print_line(f"{report.space}: {report.dim:,} dimensions.")
    for spec in report.chain:
        print_line(f"  {spec}")
    if report.cosines:
        print_line("Cosine of the picture with each text:")
    for text, cosine in report.cosines.items():
        print_line(f"  {cosine:6.3f}  {text}")


def _numbers(option: str, text: str | None) -> float | list[float] | None:
    """One number, or three that are separated by commas."""
    if text is None:
        return None
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 3):
        raise InputError(f"{option} must be one number, or three such as 122.8,116.7,104.1. Got {text!r}.")
    return numbers[0] if len(numbers) == 1 else numbers
