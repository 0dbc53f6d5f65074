// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// maxName is longer than the name of any file, including one that is reached through a link.
const maxName = 64 << 10

// Size returns the bytes of all files. A file with several names counts once.
func (f *Files) Size() int64 {
	var total int64
	for name, content := range f.content {
		if _, linked := f.origin[name]; !linked {
			total += int64(len(content))
		}
	}
	return total
}

// Encode writes the files for DecodeFiles, in the order of their names. Equal files yield equal
// bytes. It leaves out links to nothing, which DecodeFiles does not need: package render reports
// them before it sends files.
func (f *Files) Encode(w io.Writer) error {
	out := bufio.NewWriter(w)
	put := func(text []byte) { _ = put(out, text) } // Flush returns the first error
	for _, linked := range []bool{false, true} {
		for _, name := range slices.Sorted(maps.Keys(f.content)) {
			origin, isLink := f.origin[name]
			if isLink != linked {
				continue
			}
			put([]byte(name))
			if linked {
				put([]byte(origin))
			} else {
				put(f.content[name])
			}
		}
		put(nil) // an empty name ends the list
	}
	return out.Flush()
}

// DecodeFiles reads the output of Encode, and not a byte more. It returns errors of r,
// io.ErrUnexpectedEOF, and errors about input that Encode does not write or that exceeds the
// limits.
func DecodeFiles(r *bufio.Reader, limits Limits) (*Files, error) {
	limits = limits.WithDefaults()
	files := NewFiles(map[string][]byte{})
	room := limits.Bytes
	for _, linked := range []bool{false, true} {
		for {
			name, err := take(r, maxName)
			if err != nil {
				return nil, err
			}
			if len(name) == 0 {
				break
			}
			text, err := take(r, room)
			if err != nil {
				return nil, err
			}
			if err := files.put(string(name), text, linked); err != nil {
				return nil, err
			}
			if !linked {
				room -= int64(len(text))
			}
			if len(files.content) > limits.Names {
				return nil, errors.New("too many files")
			}
		}
	}
	return files, nil
}

// put adds a file, or another name of a file that was added before.
func (f *Files) put(name string, text []byte, linked bool) error {
	if !linked {
		f.content[name] = text
		return nil
	}
	content, ok := f.content[string(text)]
	if !ok {
		return fmt.Errorf("link %q leads to no file", name)
	}
	f.content[name], f.origin[name] = content, string(text)
	return nil
}

// put writes one text after its length.
func put(w io.Writer, text []byte) error {
	if _, err := w.Write(binary.AppendUvarint(nil, uint64(len(text)))); err != nil {
		return err
	}
	_, err := w.Write(text)
	return err
}

// take reads one text of at most most bytes, after its length.
func take(r *bufio.Reader, most int64) ([]byte, error) {
	length, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, unexpected(err)
	}
	if length > uint64(max(most, 0)) {
		return nil, fmt.Errorf("text of %d bytes, want at most %d", length, most)
	}
	text := make([]byte, length)
	_, err = io.ReadFull(r, text)
	return text, unexpected(err)
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
