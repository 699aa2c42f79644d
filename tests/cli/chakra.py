# Chakra traces: streams of protobuf messages, each behind its length. Fields are (number, value): a number, or bytes.
def varint(b, i):
    v = s = 0
    while True:
        v |= (b[i] & 127) << s; s += 7; i += 1
        if b[i - 1] < 128: return v, i
def fields(b):
    i = 0
    while i < len(b):
        k, i = varint(b, i)
        if k & 7 == 0: v, i = varint(b, i)
        else:
            assert k & 7 == 2, k
            n, i = varint(b, i); v = b[i:i + n]; i += n
        yield k >> 3, v
def messages(path):
    b = open(path, "rb").read(); i = 0
    while i < len(b):
        n, i = varint(b, i); yield list(fields(b[i:i + n])); i += n
