"""Writes the pictures of spec/c/file_test.c, with Pillow where it can write a kind, else byte by byte after the
specification (then Pillow must read the same), and those that must be refused. Run in this folder:

    pip install numpy pillow && python make_images.py

expected_images.txt is as expected.txt, of what is loaded as float64.
"""
import struct
import zlib

import numpy as np
from PIL import Image

expected = []
rng = np.random.default_rng(4)


def expect(file, values):
    values = np.asarray(values, float)
    assert values.ndim == 3
    shape = "x".join(map(str, values.shape))
    expected.append(" ".join([file, "-", "float64", shape] + ["%.17g" % v for v in values.ravel()]))


def chunk(kind, data, crc=None):
    crc = zlib.crc32(kind + data) if crc is None else crc
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)


def header(width, height, depth, colour, interlace=0):
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace))


def packed_row(row, depth):
    """The numbers of a row as bytes, the first in the highest bits."""
    if depth == 16:
        return row.astype(">u2").tobytes()
    bits = "".join(format(int(v), "0%db" % depth) for v in row)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))


def filtered(rows, size, filters):
    """Section 9 of the specification, row y by filters[y % len(filters)]."""
    out, above = b"", bytes(len(rows[0]))
    for y, row in enumerate(rows):
        kind = filters[y % len(filters)]
        new = []
        for i, x in enumerate(row):
            a = row[i - size] if i >= size else 0
            b = above[i]
            c = above[i - size] if i >= size else 0
            p = a + b - c
            nearest = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            new.append((x - [0, a, b, (a + b) // 2, nearest][kind]) % 256)
        out += bytes([kind]) + bytes(new)
        above = row
    return out


SIGNATURE = b"\x89PNG\r\n\x1a\n"
END = chunk(b"IEND", b"")


def png(pixels, depth, colour, filters=(0,), pieces=1, before=b"", extra_rows=0):
    """pixels: [h, w, channels] of whole numbers."""
    h, w, n = pixels.shape
    rows = [packed_row(r.ravel(), depth) for r in pixels]
    stream = zlib.compress(filtered(rows, max(1, n * depth // 8), filters) + bytes(extra_rows))
    cut = [len(stream) * k // pieces for k in range(pieces + 1)]
    data = b"".join(chunk(b"IDAT", stream[a:b]) for a, b in zip(cut, cut[1:]))
    return SIGNATURE + header(w, h, depth, colour) + before + data + chunk(b"tEXt", b"Comment\0none") + END


def put(file, content):
    with open(file, "wb") as f:
        f.write(content)


def whole(*shape, top=256):
    return rng.integers(0, top, shape)


def smooth(h, w, n):
    y, x, k = np.mgrid[0:h, 0:w, 0:n]
    return ((37 * y + 11 * x * (k + 1) + y * x) % 256).astype(np.uint8)


# by Pillow
a = smooth(9, 7, 1)
Image.fromarray(a[..., 0]).save("grey.png")
expect("grey.png", a / 255)
a = smooth(6, 11, 3)
Image.fromarray(a).save("colours.png")
expect("colours.png", a / 255)
Image.fromarray(a).save("colours.ppm")
expect("colours.ppm", a / 255)
a = smooth(5, 4, 2)
Image.fromarray(a, "LA").save("grey_alpha.png")
expect("grey_alpha.png", a / 255)
a = smooth(5, 4, 4)
Image.fromarray(a).save("colours_alpha.png")
expect("colours_alpha.png", a / 255)
a = whole(5, 13, 1, top=2).astype(bool)
Image.fromarray(a[..., 0]).save("one_bit.png")
expect("one_bit.png", a)
a = whole(4, 5, 1, top=65536).astype(np.uint16)
Image.fromarray(a[..., 0]).save("sixteen.png")
expect("sixteen.png", a / 65535)
Image.fromarray(a[..., 0]).save("sixteen.pgm")
expect("sixteen.pgm", a / 65535)
index = whole(6, 5, top=7).astype(np.uint8)
palette = whole(7, 3).astype(np.uint8)
p = Image.fromarray(index, "P")
p.putpalette(palette.tobytes())
p.save("palette.png")
assert Image.open("palette.png").mode == "P"
expect("palette.png", palette[index] / 255)

# by hand: every filter, several pieces, depths of 2 and 4 bits; Pillow reads the same
a = smooth(11, 6, 3)
put("filters.png", png(a, 8, 2, filters=(4, 3, 1, 2, 0, 3, 4, 2, 1, 4, 3), pieces=4))
assert (np.array(Image.open("filters.png")) == a).all()
expect("filters.png", a / 255)
a = whole(5, 3, 1)
put("filters_grey.png", png(a, 8, 0, filters=(2, 1, 3, 4), pieces=9, before=chunk(b"gAMA", struct.pack(">I", 45455))))
assert (np.array(Image.open("filters_grey.png")) == a[..., 0]).all()
expect("filters_grey.png", a / 255)
a = whole(24, 16, 1, top=6)  # small numbers: often two of Paeth's three are equally near
put("filters_ties.png", png(a, 8, 0, filters=(4,)))
assert (np.array(Image.open("filters_ties.png")) == a[..., 0]).all()
expect("filters_ties.png", a / 255)
a = whole(4, 3, 3, top=65536)
put("filters_sixteen.png", png(a, 16, 2, filters=(1, 4, 3, 2)))
expect("filters_sixteen.png", a / 65535)
for depth in 2, 4:
    a = whole(3, 7, 1, top=2**depth)
    put("grey%d.png" % depth, png(a, depth, 0, filters=(0, 1, 4)))
    assert (np.array(Image.open("grey%d.png" % depth).convert("L")) == a[..., 0] * 255 // (2**depth - 1)).all()
    expect("grey%d.png" % depth, a / (2**depth - 1))
    put("palette%d.png" % depth, png(a % 3, depth, 3, before=chunk(b"PLTE", palette[:3].tobytes())))
    assert (np.array(Image.open("palette%d.png" % depth).convert("RGB")) == palette[a[..., 0] % 3]).all()
    expect("palette%d.png" % depth, palette[a[..., 0] % 3] / 255)
a = whole(2, 3, 1, top=101)
put("hundred.pgm", b"P5 # a comment\n3\t# another 7\n 2\r100\n" + a.astype(np.uint8).tobytes())
expect("hundred.pgm", a / 100)

# what cannot be read
a = whole(3, 4, 1)
stream = zlib.compress(filtered([bytes(r.ravel().tolist()) for r in a], 1, (0,)))


def parts(*chunks):
    return SIGNATURE + b"".join(chunks) + END


head = header(4, 3, 8, 0)
data = chunk(b"IDAT", stream)
put("bad_interlaced.png", parts(header(4, 3, 8, 0, 1), data))
put("bad_crc.png", parts(head, chunk(b"IDAT", stream, 1)))
put("bad_adler.png", parts(head, chunk(b"IDAT", stream[:-1] + bytes([stream[-1] ^ 1]))))
put("bad_filter.png", parts(head, chunk(b"IDAT", zlib.compress(bytes([5, 0, 0, 0, 0] * 3)))))
put("bad_short.png", parts(header(4, 4, 8, 0), data))
put("bad_long.png", parts(header(4, 2, 8, 0), data))
put("bad_sizes.png", parts(header(2**31 - 1, 2**31 - 1, 16, 6), data))
put("bad_rows.png", parts(header(100000, 100000, 8, 0), data))
put("bad_zero.png", parts(header(0, 3, 8, 0), data))
put("bad_depth.png", parts(header(4, 3, 4, 2), data))
put("bad_no_palette.png", parts(header(4, 3, 8, 3), data))
put("bad_palette.png", parts(header(4, 3, 8, 3), chunk(b"PLTE", bytes(4)), data))
put("bad_colour.png", parts(header(4, 3, 8, 3), chunk(b"PLTE", bytes(3)), data))
put("bad_chunk.png", parts(head, chunk(b"ABCD", b""), data))
put("bad_two.png", parts(head, data, data))
put("bad_first.png", parts(data, head))
put("bad_no_data.png", parts(head))
put("bad_length.png", SIGNATURE + head + struct.pack(">I", 2**31 - 1) + b"IDAT" + stream)
put("bad_value.pgm", b"P5 2 1 100\n\x05\x65")
put("bad_header.pgm", b"P5 2 1\n\x05\x05")
put("bad_most.pgm", b"P5 1 1 65536\n\x05\x05")
put("bad_sizes.ppm", b"P6 99999999 99999999 255\n123")
put("bad_text.pgm", b"P2 1 1 255\n7\n")

with open("expected_images.txt", "w") as f:
    f.write("\n".join(expected) + "\n")
