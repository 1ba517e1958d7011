"""Generate synthetic pictures of twelve kinds, for the demo and for tests.

Pictures are (240, 320, 3) uint8 RGB. Pictures of one kind differ in colours, positions, sizes and noise. The same
`random_state` gives the same files, byte for byte.
"""

import colorsys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from lookalike.errors import InputError, UnknownNameError
from lookalike.types import Pixels, Progress

HEIGHT, WIDTH = 240, 320

Random: TypeAlias = np.random.Generator
Color: TypeAlias = tuple[int, int, int]

_H, _W = 2 * HEIGHT, 2 * WIDTH
"""Size at which scenes are drawn before they are shrunk, which smooths edges."""


def draw(kind: str, random: np.random.Generator) -> Pixels:
    """Return a random picture of a kind, one of `KINDS`, as (240, 320, 3) uint8 RGB."""
    if kind not in _SCENES:
        raise UnknownNameError("kind of picture", kind, KINDS)
    large = _SCENES[kind](random)
    small = cv2.resize(large, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA)
    light = random.uniform(0.9, 1.08) + random.normal(0, 0.02, 3)  # of the scene, and of each colour channel
    noise = random.standard_normal(small.shape, np.float32) * random.uniform(1, 5)
    pixels: Pixels = np.clip(small * light + noise, 0, 255).astype(np.uint8)
    return pixels


def draw_folder(
    folder: str | Path, per_kind: int = 25, random_state: int = 0, progress: Progress | None = None
) -> list[Path]:
    """Write `per_kind` pictures of every kind to `folder/<kind>/<kind>-000.jpg` … and return the sorted paths.

    Existing files with the same content are not written again. A larger `per_kind` adds pictures after the same first
    ones.
    """
    if per_kind < 1:
        raise InputError(f"per_kind must be at least 1. Got {per_kind}.")
    paths = []
    for number, kind in enumerate(KINDS):
        home = Path(folder) / kind
        home.mkdir(parents=True, exist_ok=True)
        for i in range(per_kind):
            paths.append(home / f"{kind}-{i:03}.jpg")
            _write(paths[-1], draw(kind, np.random.default_rng([random_state, number, i])))
            if progress is not None:
                progress("drawing", len(paths), per_kind * len(KINDS))
    return paths


def _write(path: Path, pixels: Pixels) -> None:
    done, data = cv2.imencode(".jpg", pixels[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 90])
    assert done
    if path.is_file() and path.read_bytes() == data.tobytes():
        return  # keep the modification time, so that a collection does not read the file again
    unfinished = path.with_name(f".{path.name}")  # hidden, so it is never listed as a picture
    unfinished.write_bytes(data.tobytes())
    unfinished.replace(path)


def _sunset(random: Random) -> Pixels:
    hue = random.uniform(0.02, 0.1)
    image = _gradient(_hsv(random.uniform(0.7, 0.9), 0.6, 0.45), _hsv(hue, 0.75, 1.0))
    x, y, size = _int(random, 120, _W - 120), int(_H * random.uniform(0.45, 0.58)), _int(random, 34, 62)
    glow = np.zeros((_H // 8, _W // 8, 3), np.uint8)  # small, because it is blurred anyway
    cv2.circle(glow, (x // 8, y // 8), size * 2 // 8, _hsv(hue, 0.6, 0.7), -1, cv2.LINE_AA)
    soft = cv2.resize(cv2.GaussianBlur(glow, (0, 0), size / 10), (_W, _H), interpolation=cv2.INTER_CUBIC)
    cv2.add(image, soft, dst=image)
    cv2.circle(image, (x, y), size, _hsv(hue + 0.05, 0.35, 1.0), -1, cv2.LINE_AA)
    horizon = int(_H * random.uniform(0.6, 0.68))
    image[horizon:] = _gradient(_hsv(hue, 0.7, 0.55), _hsv(0.75, 0.5, 0.18), _H - horizon)
    for row in range(horizon + 4, _H, 9):  # the sun's path on the water
        half = int(size * (0.5 + 0.9 * (row - horizon) / (_H - horizon)) * random.uniform(0.5, 1.2))
        cv2.line(image, (x - half, row), (x + half, row), _hsv(hue + 0.04, 0.45, 0.95), 2, cv2.LINE_AA)
    if random.random() < 0.6:
        _fill(image, _ridge(random, horizon, 40), _hsv(0.75, 0.4, 0.16), horizon)
    return image


def _beach(random: Random) -> Pixels:
    image = _gradient(_hsv(0.57, 0.65, 0.95), _hsv(0.54, 0.25, 1.0))
    _clouds(image, random, _int(random, 2, 5))
    sea, sand = int(_H * random.uniform(0.36, 0.44)), int(_H * random.uniform(0.6, 0.7))
    image[sea:sand] = _gradient(_hsv(0.56, 0.8, 0.65), _hsv(0.48, 0.5, 0.9), sand - sea)
    for _ in range(14):
        x, y = _int(random, 0, _W), _int(random, sea + 6, sand - 4)
        cv2.line(image, (x, y), (x + _int(random, 30, 90), y), (235, 250, 250), 2, cv2.LINE_AA)
    shore = _ridge(random, sand, 16)
    _fill(image, shore - 7, (245, 250, 250), _H)
    grain = random.normal(0, 9, (_H, _W, 1))
    ground = _to_pixels(np.array(_hsv(random.uniform(0.1, 0.13), 0.38, 0.93)) + grain)
    below = np.arange(_H)[:, None] > shore[None, :]  # (H, W)
    image[below] = ground[below]
    for _ in range(_int(random, 1, 4)):
        x, y, size = (
            _int(random, 60, _W - 60),
            _int(random, sand + 10, _H - 60),
            _int(random, 36, 64),
        )
        cv2.line(image, (x, y), (x, y + int(size * 1.2)), (120, 100, 90), 4, cv2.LINE_AA)
        hue = random.random()
        for k in range(6):
            color = _hsv(hue, 0.8, 0.9) if k % 2 else (250, 250, 250)
            cv2.ellipse(image, (x, y), (size, int(size * 0.7)), 0, 180 + 30 * k, 210 + 30 * k, color, -1, cv2.LINE_AA)
    return image


def _forest(random: Random) -> Pixels:
    image = _gradient(_hsv(0.55, 0.12, 0.95), _hsv(0.3, 0.15, 0.85))
    hue = random.uniform(0.26, 0.4)
    for layer in range(4):
        ground = int(_H * (0.62 + 0.11 * layer))
        shade = 0.62 - 0.13 * layer
        _fill(image, _ridge(random, ground, 14), _hsv(hue, 0.5, shade * 0.8), _H)
        for x in np.sort(random.uniform(-20, _W + 20, 13 - 2 * layer)).astype(int):
            color = _hsv(hue + random.normal(0, 0.015), 0.55, shade * random.uniform(0.85, 1.15))
            _fir(image, x, ground + _int(random, 0, 30), int(random.uniform(90, 150) * (1 + 0.35 * layer)), color)
    return image


def _fir(image: Pixels, x: int, base: int, height: int, color: Color) -> None:
    trunk = ((x - height // 30, base - height // 4), (x + height // 30, base - height // 10))
    cv2.rectangle(image, *trunk, (60, 45, 32), -1, cv2.LINE_AA)
    for step in range(4):
        top, half = base - height + step * height // 6, height * (step + 2) // 20
        tip = np.array([[x, top], [x - half, top + height // 3], [x + half, top + height // 3]], np.int32)
        darker = tuple(int(c * (1 - 0.06 * step)) for c in color)
        cv2.fillPoly(image, [tip], darker, cv2.LINE_AA)


def _night(random: Random) -> Pixels:
    hue = random.uniform(0.6, 0.72)
    image = _gradient(_hsv(hue, 0.8, 0.1), _hsv(hue - 0.05, 0.7, 0.35))
    for _ in range(_int(random, 90, 220)):
        x, y = _int(random, 0, _W), _int(random, 0, int(_H * 0.85))
        bright, size = _int(random, 140, 256), 1 + int(random.exponential(0.6))
        cv2.circle(image, (x, y), size, (bright, bright, min(255, bright + 20)), -1, cv2.LINE_AA)
    x, y, size = _int(random, 80, _W - 80), _int(random, 70, 190), _int(random, 32, 58)
    behind = image.copy()
    cv2.circle(image, (x, y), size, (250, 244, 214), -1, cv2.LINE_AA)
    shadow = np.zeros((_H, _W), np.uint8)
    cv2.circle(shadow, (x + int(size * random.uniform(0.35, 0.8)), y - size // 5), size, 255, -1, cv2.LINE_AA)
    image = np.where(shadow[:, :, None] > 127, behind, image)
    _fill(image, _ridge(random, int(_H * random.uniform(0.78, 0.88)), 46), (8, 9, 16), _H)
    return image


def _balloons(random: Random) -> Pixels:
    hue = random.uniform(0.5, 0.62)
    image = _gradient(_hsv(hue, 0.45, 1.0), _hsv(hue, 0.1, 1.0))
    _clouds(image, random, 3)
    for _ in range(_int(random, 4, 9)):
        x, y, size = _int(random, 60, _W - 60), _int(random, 60, _H - 150), _int(random, 36, 70)
        color, sway = _hsv(random.random(), 0.85, 0.95), random.uniform(-25, 25)
        thread = np.array([[x + sway * np.sin(t / 14), y + size * 1.2 + 2.2 * t] for t in range(60)], np.int32)
        cv2.polylines(image, [thread], False, (90, 90, 100), 2, cv2.LINE_AA)
        cv2.ellipse(image, (x, y), (size, int(size * 1.2)), 0, 0, 360, color, -1, cv2.LINE_AA)
        knot = np.array([[x, y + size * 1.15], [x - 9, y + size * 1.15 + 16], [x + 9, y + size * 1.15 + 16]], np.int32)
        cv2.fillPoly(image, [knot], color, cv2.LINE_AA)
        light = tuple(int(c + (255 - c) * 0.65) for c in color)
        cv2.ellipse(image, (x - size // 3, y - size // 2), (size // 6, size // 4), 25, 0, 360, light, -1, cv2.LINE_AA)
    return image


def _flower(random: Random) -> Pixels:
    blurred = cv2.resize(
        random.uniform(0.6, 1.1, (8, 10, 1)).astype(np.float32), (_W, _H), interpolation=cv2.INTER_CUBIC
    )
    ground = np.array(_hsv(random.uniform(0.24, 0.36), 0.55, 0.5))
    image = _to_pixels(blurred[:, :, None] * ground)
    x, y, size = _int(random, 220, 420), _int(random, 180, 270), _int(random, 90, 150)
    stem = np.array([[x, y], [x + _int(random, -60, 60), _H]], np.int32)
    cv2.polylines(image, [stem], False, _hsv(0.3, 0.75, 0.4), 12, cv2.LINE_AA)
    hue = random.choice([0.0, 0.08, 0.78, 0.85, 0.92, 0.15]) + random.normal(0, 0.01)
    petals, turn = _int(random, 6, 13), random.uniform(0, 360)
    for ring, shade in ((1.0, 0.85), (0.7, 1.0)):
        for k in range(petals):
            angle = turn + 360 * (k + 0.5 * (ring < 1)) / petals
            along = np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle))]) * size * 0.55 * ring
            middle = (int(x + along[0]), int(y + along[1]))
            axes = (int(size * 0.5 * ring), int(size * 1.5 * ring / petals + 8))
            cv2.ellipse(
                image, middle, axes, angle, 0, 360, _hsv(hue, 0.65, shade * random.uniform(0.88, 1)), -1, cv2.LINE_AA
            )
    cv2.circle(image, (x, y), size // 4, _hsv(0.13, 0.85, 0.95), -1, cv2.LINE_AA)
    for _ in range(40):
        dot = random.normal(0, size / 11, 2)
        cv2.circle(image, (int(x + dot[0]), int(y + dot[1])), 3, _hsv(0.08, 0.9, 0.6), -1, cv2.LINE_AA)
    return image


def _fish(random: Random) -> Pixels:
    hue = random.uniform(0.48, 0.58)
    image = _gradient(_hsv(hue, 0.55, 0.85), _hsv(hue + 0.05, 0.9, 0.3))
    _fill(image, _ridge(random, _H - 50, 14), _hsv(0.11, 0.45, 0.6), _H)
    for _ in range(_int(random, 4, 9)):
        x = _int(random, 0, _W)
        weed = np.array([[x + 14 * np.sin(t / 5 + x), _H - 7 * t] for t in range(_int(random, 8, 24))], np.int32)
        cv2.polylines(image, [weed], False, _hsv(0.36, 0.8, 0.45), 8, cv2.LINE_AA)
    for _ in range(_int(random, 2, 5)):
        x, y, size = (
            _int(random, 110, _W - 110),
            _int(random, 70, _H - 120),
            _int(random, 46, 92),
        )
        way = int(random.choice([-1, 1]))
        color, fin = _hsv(random.uniform(0.0, 0.16), 0.85, 1.0), _hsv(random.uniform(0.0, 0.12), 0.9, 0.8)
        tail = np.array(
            [[x - way * size * 0.8, y], [x - way * size * 1.5, y - size * 0.5], [x - way * size * 1.5, y + size * 0.5]]
        )
        back = np.array(
            [[x - way * size * 0.4, y - size * 0.4], [x, y - size * 0.85], [x + way * size * 0.4, y - size * 0.4]]
        )
        cv2.fillPoly(image, [tail.astype(np.int32), back.astype(np.int32)], fin, cv2.LINE_AA)
        cv2.ellipse(image, (x, y), (size, size // 2), 0, 0, 360, color, -1, cv2.LINE_AA)
        for band in (-0.25, 0.15):
            at, half = int(x + way * band * size), int(size * 0.5 * np.sqrt(1 - band**2))
            cv2.line(image, (at, y - half), (at, y + half), (250, 250, 250), max(3, size // 9), cv2.LINE_AA)
        eye = (int(x + way * size * 0.6), y - size // 8)
        cv2.circle(image, eye, size // 9, (255, 255, 255), -1, cv2.LINE_AA)
        cv2.circle(image, eye, size // 16, (10, 10, 10), -1, cv2.LINE_AA)
    for _ in range(_int(random, 8, 20)):
        bubble = (_int(random, 0, _W), _int(random, 0, _H - 60))
        cv2.circle(image, bubble, _int(random, 4, 12), (215, 240, 250), 2, cv2.LINE_AA)
    return image


def _face(random: Random) -> Pixels:
    image = np.full((_H, _W, 3), _hsv(random.random(), random.uniform(0.15, 0.5), 0.95), np.uint8)
    x, y, size = _int(random, 250, 390), _int(random, 215, 265), _int(random, 135, 195)
    cv2.circle(image, (x, y), size, _hsv(random.uniform(0.12, 0.16), 0.75, 1.0), -1, cv2.LINE_AA)
    cv2.circle(image, (x, y), size, (70, 50, 10), 6, cv2.LINE_AA)
    apart, up = int(size * random.uniform(0.32, 0.42)), int(size * random.uniform(0.2, 0.32))
    for way in (-1, 1):
        eye = (int(size * random.uniform(0.1, 0.12)), int(size * random.uniform(0.15, 0.2)))
        cv2.ellipse(image, (x + way * apart, y - up), eye, 0, 0, 360, (40, 30, 15), -1, cv2.LINE_AA)
        if random.random() < 0.4:
            cheek = (x + way * int(size * 0.58), y + size // 5)
            cv2.circle(image, cheek, size // 7, (245, 140, 110), -1, cv2.LINE_AA)
    mouth, depth = (x, y + int(size * 0.15)), random.uniform(0.3, 0.55)
    axes = (int(size * random.uniform(0.45, 0.6)), int(size * depth))
    if random.random() < 0.35:
        cv2.ellipse(image, mouth, axes, 0, 0, 180, (110, 30, 25), -1, cv2.LINE_AA)
    cv2.ellipse(image, mouth, axes, 0, 5, 175, (70, 50, 10), 10, cv2.LINE_AA)
    return image


def _house(random: Random) -> Pixels:
    image = _gradient(_hsv(0.56, random.uniform(0.3, 0.6), 1.0), _hsv(0.55, 0.1, 1.0))
    _clouds(image, random, 2)
    lawn = int(_H * random.uniform(0.72, 0.8))
    image[lawn:] = _gradient(_hsv(0.29, 0.65, 0.7), _hsv(0.3, 0.7, 0.5), _H - lawn)
    x, width, height = _int(random, 130, 230), _int(random, 230, 320), _int(random, 130, 190)
    top, over = lawn + 30 - height, 26
    wall, roof = _hsv(random.random(), random.uniform(0.1, 0.45), 0.93), _hsv(random.uniform(0, 0.06), 0.7, 0.6)
    cv2.rectangle(image, (x, top), (x + width, lawn + 30), wall, -1, cv2.LINE_AA)
    cv2.rectangle(
        image, (x + int(width * 0.72), top - 110), (x + int(width * 0.82), top), (140, 90, 75), -1, cv2.LINE_AA
    )
    peak = top - _int(random, 80, 120)
    gable = np.array([[x - over, top], [x + width // 2, peak], [x + width + over, top]], np.int32)
    cv2.fillPoly(image, [gable], roof, cv2.LINE_AA)
    door = x + int(width * random.uniform(0.4, 0.5))
    cv2.rectangle(image, (door, lawn - 50), (door + 50, lawn + 30), _hsv(random.random(), 0.6, 0.45), -1, cv2.LINE_AA)
    cv2.circle(image, (door + 40, lawn - 8), 4, (240, 220, 120), -1, cv2.LINE_AA)
    for left in (x + int(width * 0.08), x + int(width * 0.7)):
        pane = ((left, top + 24), (left + 52, top + 74))
        cv2.rectangle(image, *pane, (190, 225, 245), -1, cv2.LINE_AA)
        cv2.rectangle(image, *pane, (250, 250, 250), 5, cv2.LINE_AA)
        cv2.line(image, (left + 26, top + 24), (left + 26, top + 74), (250, 250, 250), 4, cv2.LINE_AA)
        cv2.line(image, (left, top + 49), (left + 52, top + 49), (250, 250, 250), 4, cv2.LINE_AA)
    if random.random() < 0.7:
        tree = int(random.choice([x - 70, x + width + 75]))
        cv2.rectangle(image, (tree - 9, lawn - 70), (tree + 9, lawn + 24), (105, 75, 50), -1, cv2.LINE_AA)
        cv2.circle(image, (tree, lawn - 100), _int(random, 46, 66), _hsv(0.31, 0.65, 0.5), -1, cv2.LINE_AA)
    return image


def _chart(random: Random) -> Pixels:
    image = np.full((_H, _W, 3), _int(random, 244, 256), np.uint8)
    left, base, top = 80, _H - 70, 60
    for row in np.linspace(top, base, 6).astype(int):
        cv2.line(image, (left, int(row)), (_W - 40, int(row)), (205, 205, 210), 2, cv2.LINE_AA)
        cv2.putText(
            image,
            str(int((base - row) / 3.5)),
            (26, int(row) + 8),
            cv2.FONT_HERSHEY_SIMPLEX,
            0.65,
            (90, 90, 90),
            2,
            cv2.LINE_AA,
        )
    bars, hue, many = _int(random, 4, 10), random.random(), random.random() < 0.5
    step = (_W - 40 - left) / bars
    for k in range(bars):
        x, height = int(left + step * (k + 0.18)), int(random.uniform(0.12, 1) * (base - top))
        color = _hsv(hue + 0.11 * k * many, 0.6, 0.85)
        cv2.rectangle(image, (x, base - height), (int(x + step * 0.64), base), color, -1, cv2.LINE_AA)
        cv2.putText(
            image,
            chr(65 + k),
            (int(x + step * 0.2), base + 34),
            cv2.FONT_HERSHEY_SIMPLEX,
            0.8,
            (70, 70, 70),
            2,
            cv2.LINE_AA,
        )
    cv2.line(image, (left, top - 20), (left, base), (50, 50, 50), 4, cv2.LINE_AA)
    cv2.line(image, (left, base), (_W - 40, base), (50, 50, 50), 4, cv2.LINE_AA)
    return image


def _stripes(random: Random) -> Pixels:
    hue, n_colors = random.random(), _int(random, 2, 5)
    colors = [
        _hsv(hue + random.normal(0, 0.12), random.uniform(0.2, 0.8), random.uniform(0.45, 1.0)) for _ in range(n_colors)
    ]
    widths = random.integers(10, 44, n_colors)
    angle = random.uniform(0, np.pi)
    y, x = np.mgrid[:_H, :_W].astype(np.float32)
    along = (x * np.cos(angle) + y * np.sin(angle)) + 4 * np.sin(
        (y - x) / random.uniform(30, 80)
    )  # cloth hangs in folds
    band = np.searchsorted(np.cumsum(widths), along % widths.sum(), side="right").clip(0, n_colors - 1)
    weave = 1 + 0.05 * np.sin(x * 1.6) * np.sin(y * 1.6) + 0.1 * np.sin((x + y) / random.uniform(60, 120))
    return _to_pixels(np.array(colors)[band] * weave[:, :, None])


def _checkers(random: Random) -> Pixels:
    size, angle = random.uniform(26, 60), random.uniform(-0.5, 0.5)
    dark, light = _hsv(random.random(), random.uniform(0, 0.7), random.uniform(0.05, 0.4)), (248, 244, 232)
    y, x = np.mgrid[:_H, :_W].astype(np.float32)
    depth = 1 + random.uniform(0, 0.9) * (y / _H)  # seen at a slant
    u = ((x - _W / 2) * np.cos(angle) + y * np.sin(angle)) / depth / size
    v = ((_W / 2 - x) * np.sin(angle) + y * np.cos(angle)) / depth / size
    odd = (np.floor(u + random.random()) + np.floor(v + random.random())) % 2
    image = np.where(odd[:, :, None] > 0, dark, light) * (0.85 + 0.15 * (y / _H))[:, :, None]
    return _to_pixels(image)


def _hsv(hue: float, saturation: float, value: float) -> Color:
    r, g, b = colorsys.hsv_to_rgb(hue % 1, min(1, max(0, saturation)), min(1, max(0, value)))
    return int(r * 255), int(g * 255), int(b * 255)


def _int(random: Random, low: int, high: int) -> int:
    return int(random.integers(low, high))


def _gradient(top: Color, bottom: Color, height: int = _H) -> Pixels:
    """Return a vertical gradient between two colours."""
    share = np.linspace(0, 1, height)[:, None, None]
    column = np.array(top) * (1 - share) + np.array(bottom) * share  # (height, 1, 3)
    return np.repeat(_to_pixels(column), _W, axis=1)


def _to_pixels(values: NDArray[np.floating]) -> Pixels:
    pixels: Pixels = np.clip(values, 0, 255).astype(np.uint8)
    return pixels


def _ridge(random: Random, height: int, swing: int) -> NDArray[np.int64]:
    """Return a wavy line across the picture: the row at each column, (W,)."""
    x = np.arange(_W)
    waves = [np.sin(x / random.uniform(40, 160) + random.uniform(0, 6)) / (k + 1) for k in range(3)]
    rows: NDArray[np.int64] = (height + swing * 0.5 * np.sum(waves, axis=0)).astype(np.int64)
    return rows


def _fill(image: Pixels, ridge: NDArray[np.int64], color: Color, bottom: int) -> None:
    """Fill the area between a ridge and a row."""
    outline = np.column_stack([np.arange(_W), np.minimum(ridge, bottom)])
    cv2.fillPoly(image, [np.vstack([outline, [[_W, bottom], [0, bottom]]]).astype(np.int32)], color, cv2.LINE_AA)


def _clouds(image: Pixels, random: Random, count: int) -> None:
    for _ in range(count):
        x, y = _int(random, 0, _W), _int(random, 20, int(_H * 0.3))
        for _ in range(6):
            at = (x + _int(random, -60, 60), y + _int(random, -12, 12))
            axes = (_int(random, 26, 54), _int(random, 14, 26))
            cv2.ellipse(image, at, axes, 0, 0, 360, (252, 252, 255), -1, cv2.LINE_AA)


_SCENES: dict[str, Callable[[Random], Pixels]] = {
    "balloons": _balloons,
    "beach": _beach,
    "chart": _chart,
    "checkers": _checkers,
    "face": _face,
    "fish": _fish,
    "flower": _flower,
    "forest": _forest,
    "house": _house,
    "night": _night,
    "stripes": _stripes,
    "sunset": _sunset,
}

KINDS = tuple(_SCENES)
"""The kinds of pictures."""
