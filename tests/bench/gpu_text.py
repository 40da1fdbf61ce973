"""gpu_text.py OUT VOCAB [TOKENS]: real text of this machine as a token shard (llm.c's format, uint32), for recording how a router spreads it.

Text: licences, Perl's modules with their documentation, copyright files, Python's library.  Tokens: words with the
blank before them, single digits, runs of punctuation, runs of white space; the commoner a token, the lower its number; what is
rarer than the vocabulary has places for shares the upper half of them by a hash.  Word frequencies are those of the text, so experts see
the uneven load that a tokenizer's ids give; it is no tokenizer that a model was trained with.
"""
import array, collections, glob, hashlib, os, re, struct, sys, sysconfig

out, vocab = sys.argv[1], int(sys.argv[2])
want = int(sys.argv[3]) if len(sys.argv) > 3 else 8_000_000
patterns = ['/usr/share/common-licenses/*', '/usr/share/perl/**/*.p[om]*', '/usr/share/perl5/**/*.p[om]*', '/usr/lib/*/perl-base/**/*.pm',
            '/usr/share/doc/*/copyright', sysconfig.get_paths()['stdlib'] + '/**/*.py', sysconfig.get_paths()['purelib'] + '/**/*.py']
paths = sorted({os.path.realpath(p) for g in patterns for p in glob.glob(g, recursive=True) if os.path.isfile(p) and os.path.getsize(p) < 300_000})
paths.sort(key=lambda p: hashlib.sha1(p.encode()).digest())
word = re.compile(r' ?[A-Za-z]+| ?[0-9]| ?[^\sA-Za-z0-9]+|\s+')
ids, text, size = {}, array.array('I'), 0
seen = collections.Counter()
for p in paths:
    s = open(p, encoding='utf-8', errors='replace').read()
    size += len(s)
    words = word.findall(s) + ['\0']
    seen.update(words)
    text.extend(ids.setdefault(w, len(ids)) for w in words)
    if len(text) >= want:
        break
if len(text) < 100_000:
    sys.exit('gpu_text.py: only %d tokens of text on this machine' % len(text))
rank = {w: i for i, (w, n) in enumerate(sorted(seen.items(), key=lambda x: (-x[1], x[0])))}
number = [0] * len(ids)
for w, i in ids.items():
    r = rank[w]
    number[i] = r if r < vocab else vocab // 2 + int.from_bytes(hashlib.sha1(w.encode()).digest()[:4], 'little') % (vocab - vocab // 2)
with open(out, 'wb') as f:
    f.write(struct.pack('<256i', 20240801, 7, len(text), *[0] * 253))
    array.array('I', (number[t] for t in text)).tofile(f)
print('text of this machine: %d characters of %d files, %d tokens, %d distinct' % (size, paths.index(p) + 1, len(text), len(ids)))
