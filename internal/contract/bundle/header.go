// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The header is encoded by hand rather than with archive/tar: its bytes are the identity of every
// bundle that will ever exist, and a standard library may change whatever the format leaves open.
// Tests compare the two.

const (
	blockSize   = 512
	trailerSize = 2 * blockSize
)

// field is the offset of a field of a USTAR header, with its length in the low ten bits.
type field uint32

const (
	fieldName     field = 0<<10 | 100
	fieldMode     field = 100<<10 | 8
	fieldUID      field = 108<<10 | 8
	fieldGID      field = 116<<10 | 8
	fieldSize     field = 124<<10 | 12
	fieldMtime    field = 136<<10 | 12
	fieldChecksum field = 148<<10 | 8
	fieldType     field = 156<<10 | 1
	fieldLink     field = 157<<10 | 100
	fieldMagic    field = 257<<10 | 8
	fieldDevMajor field = 329<<10 | 8
	fieldDevMinor field = 337<<10 | 8
	fieldPrefix   field = 345<<10 | 155
)

const (
	typeFile    = '0'
	typeSymlink = '2'
	typePAX     = 'x'

	magic   = "ustar\x0000"
	paxName = "././@PaxHeader"
	paxPath = "path"
	paxLink = "linkpath"
)

func (f field) length() int {
	return int(f & (1<<10 - 1))
}

func (f field) of(block []byte) []byte {
	offset := int(f >> 10)
	return block[offset : offset+f.length()]
}

func (f field) put(block []byte, text string) {
	copy(f.of(block), text)
}

// putOctal writes a number as octal digits that fill the field except for the NUL at its end.
func (f field) putOctal(block []byte, value int64) {
	putDigits(f.of(block)[:f.length()-1], value)
}

// putDigits fills a piece of a block with octal digits. A NUL already follows them. The value fits,
// because sizes are bounded.
func putDigits(digits []byte, value int64) {
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = '0' + byte(value&7)
		value >>= 3
	}
}

// text reads a field up to its first NUL.
func (f field) text(block []byte) string {
	text, _, _ := bytes.Cut(f.of(block), []byte{0})
	return string(text)
}

// octal reads what putOctal wrote.
func (f field) octal(block []byte) (int64, error) {
	return strconv.ParseInt(f.text(block), 8, 64)
}

// appendHeader appends everything that precedes an entry's content: one USTAR block, and before it
// a PAX header where the name or the target does not fit there. The entry must be valid.
func appendHeader(dst []byte, e Entry) []byte {
	h := rawHeader{kind: typeFile, mode: 0o644, size: e.Size}
	switch {
	case e.IsSymlink():
		h.kind, h.mode = typeSymlink, 0o777
	case e.Executable:
		h.mode = 0o755
	}
	var records string
	if !fits(e.Target, fieldLink.length()) {
		records += paxRecord(paxLink, e.Target)
	}
	h.link = head(e.Target, fieldLink.length())
	prefix, name, ok := splitName(e.Name)
	if !ok {
		records += paxRecord(paxPath, e.Name)
		prefix, name = "", head(e.Name, fieldName.length())
	}
	h.prefix, h.name = prefix, name
	if records != "" {
		dst = rawHeader{kind: typePAX, mode: 0o644, name: paxName, size: int64(len(records))}.append(dst)
		dst = append(dst, records...)
		dst = append(dst, make([]byte, padding(int64(len(records))))...)
	}
	return h.append(dst)
}

// rawHeader is one 512-byte header block. Fields that it does not name are zero or constant.
type rawHeader struct {
	kind         byte
	mode, size   int64
	prefix, name string
	link         string
}

func (h rawHeader) append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, blockSize)...)
	block := dst[start:]
	fieldName.put(block, h.name)
	fieldMode.putOctal(block, h.mode)
	fieldUID.putOctal(block, 0)
	fieldGID.putOctal(block, 0)
	fieldSize.putOctal(block, h.size)
	fieldMtime.putOctal(block, 0)
	fieldType.of(block)[0] = h.kind
	fieldLink.put(block, h.link)
	fieldMagic.put(block, magic)
	fieldDevMajor.putOctal(block, 0)
	fieldDevMinor.putOctal(block, 0)
	fieldPrefix.put(block, h.prefix)
	putChecksum(block)
	return dst
}

// putChecksum sets the sum of all bytes of the block, computed with spaces in the checksum's own
// field. It is written as six octal digits, a NUL and a space: no other number of a header ends
// like that.
func putChecksum(block []byte) {
	fieldChecksum.put(block, "        ")
	var sum int64
	for _, b := range block {
		sum += int64(b)
	}
	field := fieldChecksum.of(block)
	putDigits(field[:6], sum)
	field[6] = 0
}

// splitName divides a name between the prefix and the name field. A short name stays whole;
// otherwise the prefix takes as many leading elements as it can. ok is false if no slash divides
// the name into parts that both fit, and for names that are not ASCII, because USTAR does not
// define their encoding.
func splitName(name string) (prefix, rest string, ok bool) {
	if fits(name, fieldName.length()) {
		return "", name, true
	}
	if !isASCII(name) {
		return "", "", false
	}
	slash := strings.LastIndexByte(head(name, fieldPrefix.length()+1), '/')
	if slash < 0 || len(name)-slash-1 > fieldName.length() {
		return "", "", false
	}
	return name[:slash], name[slash+1:], true
}

func fits(text string, length int) bool {
	return len(text) <= length && isASCII(text)
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf })
}

// head returns at most the first length bytes, and may cut a character in two.
func head(text string, length int) string {
	return text[:min(length, len(text))]
}

// paxRecord is "length key=value\n", where length counts the whole record, its own digits included.
func paxRecord(key, value string) string {
	rest := " " + key + "=" + value + "\n"
	length := len(rest)
	for length != len(rest)+len(strconv.Itoa(length)) {
		length = len(rest) + len(strconv.Itoa(length))
	}
	return strconv.Itoa(length) + rest
}

// padding is the number of zero bytes that follow size bytes of content.
func padding(size int64) int64 {
	return (blockSize - size%blockSize) % blockSize
}
