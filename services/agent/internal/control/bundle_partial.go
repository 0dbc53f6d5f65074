// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/leatdev/leat/internal/contract/digest"
)

// maxPartialHead bounds the first line of a partial's file.
const maxPartialHead = 4 << 10

// representation identifies the bytes of a download.
type representation struct {
	// Tag is the strong ETag of the bytes. Empty: the download cannot be resumed.
	Tag string `json:"tag,omitempty"`
	// Base is the base of the delta. Zero: the download is the bundle itself.
	Base digest.Digest `json:"base,omitzero"`
}

// partial is a possibly incomplete download in a file that outlives the process. The first line of
// the file is the representation, and the rest its bytes so far. Bytes of two representations are
// never mixed. The digest detects any damage by a crash of the machine.
type partial struct {
	file *os.File // at its end
	is   representation
	head int64 // length of the line
	size int64 // bytes after the line; 0 if they cannot be continued
	gone bool
}

// openPartial opens an incomplete download, or begins an empty one.
func openPartial(path string) (*partial, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open download: %w", err)
	}
	p := &partial{file: file}
	if err := p.restore(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return p, nil
}

func (p *partial) restore() error {
	line, err := bufio.NewReaderSize(io.LimitReader(p.file, maxPartialHead), maxPartialHead).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &p.is) != nil || p.is.Tag == "" {
		return p.clear()
	}
	end, err := p.file.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("find end of download: %w", err)
	}
	p.head = int64(len(line))
	p.size = end - p.head
	return nil
}

// clear discards the downloaded bytes.
func (p *partial) clear() error {
	p.is, p.head, p.size = representation{}, 0, 0
	_, err := p.file.Seek(0, io.SeekStart)
	if err = errors.Join(err, p.file.Truncate(0)); err != nil {
		return fmt.Errorf("restart download: %w", err)
	}
	return nil
}

// begin discards the downloaded bytes and sets another representation.
func (p *partial) begin(is representation) error {
	if err := p.clear(); err != nil {
		return err
	}
	line, err := json.Marshal(is)
	if err != nil {
		return fmt.Errorf("begin download: %w", err)
	}
	if len(line) >= maxPartialHead {
		is.Tag = "" // the hub does not send tags of that length
		return p.begin(is)
	}
	n, err := p.file.Write(append(line, '\n'))
	if err != nil {
		return fmt.Errorf("begin download: %w", err)
	}
	p.is, p.head = is, int64(n)
	return nil
}

// continues reports whether an answer to a range request begins exactly where the bytes end.
func (p *partial) continues(header http.Header) bool {
	tag := header.Get("Etag")
	start, ok := rangeStart(header.Get("Content-Range"))
	return ok && start == p.size && p.size > 0 && (tag == "" || tag == p.is.Tag)
}

// rangeStart returns the first number of "bytes 100-199/200".
func rangeStart(header string) (int64, bool) {
	text, _, found := strings.Cut(strings.TrimPrefix(header, "bytes "), "-")
	start, err := strconv.ParseInt(text, 10, 64)
	return start, found && err == nil
}

// Write appends bytes.
func (p *partial) Write(b []byte) (int, error) {
	n, err := p.file.Write(b)
	p.size += int64(n)
	return n, err
}

// content returns a reader of all bytes. It can be called again, for another reader.
func (p *partial) content() (io.Reader, error) {
	if _, err := p.file.Seek(p.head, io.SeekStart); err != nil {
		return nil, fmt.Errorf("rewind download: %w", err)
	}
	return io.LimitReader(p.file, p.size), nil
}

// remove removes the file after it has been used.
func (p *partial) remove() error {
	p.gone = true
	if err := os.Remove(p.file.Name()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove download: %w", err)
	}
	return nil
}

// close closes the file, and removes it if no later attempt could resume it.
func (p *partial) close() error {
	if !p.gone && p.is.Tag == "" {
		return errors.Join(p.remove(), p.file.Close())
	}
	return p.file.Close()
}
