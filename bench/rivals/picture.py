"""The picture of the README: share of the FMA peak over sequence length, heed and its rivals, without a mask and causal."""
import math
from xml.sax.saxutils import escape

WHO = ("heed", "ONNX Runtime", "OpenVINO", "PyTorch")
# Okabe and Ito's colours, which differ for all kinds of eyes; each line has a mark of its own too.
COLOUR = {"heed": "#D55E00", "ONNX Runtime": "#0072B2", "OpenVINO": "#009E73", "PyTorch": "#7A5195"}
MARK = {"heed": "circle", "ONNX Runtime": "square", "OpenVINO": "diamond", "PyTorch": "triangle"}
WIDTH, HEIGHT = 920, 490
TOP, BOTTOM = 116, 92
PANELS = ((64, 444), (512, 892))  # left and right edges
INK, PALE, GRID = "#24292f", "#57606a", "#d8dee4"


def text(x, y, words, size=13, anchor="middle", colour=INK, weight="normal", turn=None):
    turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn is not None else ""
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}" '
            f'font-weight="{weight}"{turned}>{escape(words)}</text>')


def line(x1, y1, x2, y2, colour=GRID, width=1.0):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def mark(who, x, y, size):
    style = f'fill="{COLOUR[who]}" stroke="#ffffff" stroke-width="1.2"'
    if MARK[who] == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}" {style}/>'
    if MARK[who] == "square":
        return f'<rect x="{x - size:.1f}" y="{y - size:.1f}" width="{2 * size:.1f}" height="{2 * size:.1f}" {style}/>'
    corners = {"diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)), "triangle": ((0, -1.3), (1.2, 0.9), (-1.2, 0.9))}
    points = " ".join(f"{x + size * a:.1f},{y + size * b:.1f}" for a, b in corners[MARK[who]])
    return f'<polygon points="{points}" {style}/>'


def curves(rows, is_causal, head_dim):
    """{who: [(length, share)]}"""
    theme = "causal" if is_causal else "forward"
    found = {}
    for row in sorted(rows, key=lambda row: row["seq_len"]):
        if row["theme"] == theme and row["head_dim"] == head_dim:
            for who, one in row["best"].items():
                found.setdefault(who, []).append((row["seq_len"], one["share"]))
    return found


def panel(left, right, title, found):
    lengths = sorted({length for points in found.values() for length, _ in points})
    shares = [share for points in found.values() for _, share in points]
    if not lengths:
        return [text((left + right) / 2, HEIGHT / 2, "not measured", colour=PALE)]
    top_share = max(1.0, math.ceil(max(shares) * 5) / 5)
    first, last = math.log2(lengths[0]), math.log2(lengths[-1])
    inset = 16

    def across(length):
        return left + inset + (math.log2(length) - first) / max(last - first, 1e-9) * (right - left - 2 * inset)

    def up(share):
        return HEIGHT - BOTTOM - share / top_share * (HEIGHT - TOP - BOTTOM)

    parts = [text(left, TOP - 14, title, 14, "start", weight="600")]
    for step in range(round(top_share * 5) + 1):
        share = step / 5
        parts.append(line(left, up(share), right, up(share), INK if step == 0 else GRID))
        parts.append(text(left - 8, up(share) + 4, f"{share * 100:.0f} %", 12, "end", PALE))
    for length in lengths:
        parts.append(line(across(length), up(0), across(length), up(0) + 5, INK))
        parts.append(text(across(length), up(0) + 20, str(length), 12, colour=PALE))
    for who in reversed(WHO):  # heed last, on top
        points = found.get(who, [])
        path = " ".join(f"{across(length):.1f},{up(share):.1f}" for length, share in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLOUR[who]}" '
                     f'stroke-width="{3.2 if who == "heed" else 2}" stroke-linejoin="round"/>')
        parts += [mark(who, across(length), up(share), 5 if who == "heed" else 3.8) for length, share in points]
    parts.append(text((left + right) / 2, up(0) + 42, "sequence length (queries and keys)", 13))
    return parts


def legend(whos):
    parts, x, y = [], PANELS[0][0], 58
    for who in whos:
        heavy = who == "heed"
        parts.append(line(x, y, x + 30, y, COLOUR[who], 3.2 if heavy else 2))
        parts.append(mark(who, x + 15, y, 5 if heavy else 3.8))
        parts.append(text(x + 37, y + 4.5, who, 13, "start", weight="600" if heavy else "normal"))
        x += 37 + 8.2 * len(who) + 26
    return parts


def draw(facts, rows, head_dim=64):
    threads = "one thread" if facts["threads"] == "1" else f"{facts['threads']} threads"
    plain, causal = (curves(rows, is_causal, head_dim) for is_causal in (False, True))
    whos = [who for who in WHO if who in plain or who in causal]
    title = f"Attention forward, float, head size {head_dim}: share of the processor's FMA peak, {threads}"
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
             f'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" role="img">',
             f"<title>{escape(title)}</title>",
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
             text(PANELS[0][0], 30, title, 16, "start", weight="600"),
             *legend(whos),
             *panel(*PANELS[0], "no mask", plain),
             *panel(*PANELS[1], "causal (half the flops count)", causal),
             text(18, (TOP + HEIGHT - BOTTOM) / 2, "share of FMA peak", 13, turn=-90),
             text(PANELS[0][0], HEIGHT - 16, f"{facts['processor']}; {facts['packages']}", 11, "start", PALE),
             "</svg>"]
    return "\n".join(parts) + "\n"
