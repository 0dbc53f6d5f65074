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

	"github.com/leatdev/leat/internal/digest"
)

// maxPartialHead bounds the first line of a partial's file.
const maxPartialHead = 4 << 10

// representation tells what the bytes of a download are a beginning of.
type representation struct {
	// Tag is the strong ETag they came with. Empty: there was none, and they are worth nothing once the connection is cut.
	Tag string `json:"tag,omitempty"`
	// Base is what the delta leads from. Zero: it is the bundle itself.
	Base digest.Digest `json:"base,omitzero"`
}

// partial is a download that may have been cut off, in a file that outlives the process: a line that tells the representation,
// then its bytes so far. Bytes of two representations never meet. What a crash of the machine does to the file the
// digest finds out.
type partial struct {
	file *os.File // at its end
	is   representation
	head int64 // length of the line
	size int64 // bytes after the line; 0 where they cannot be added to
	gone bool
}

// openPartial opens what there is of a download, or begins with nothing.
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

// clear forgets what was downloaded.
func (p *partial) clear() error {
	p.is, p.head, p.size = representation{}, 0, 0
	_, err := p.file.Seek(0, io.SeekStart)
	if err = errors.Join(err, p.file.Truncate(0)); err != nil {
		return fmt.Errorf("start download anew: %w", err)
	}
	return nil
}

// begin starts anew with another representation.
func (p *partial) begin(is representation) error {
	if err := p.clear(); err != nil {
		return err
	}
	line, err := json.Marshal(is)
	if err != nil {
		return fmt.Errorf("begin download: %w", err)
	}
	if len(line) >= maxPartialHead {
		is.Tag = "" // so long a tag is not one of ours
		return p.begin(is)
	}
	n, err := p.file.Write(append(line, '\n'))
	if err != nil {
		return fmt.Errorf("begin download: %w", err)
	}
	p.is, p.head = is, int64(n)
	return nil
}

// continues tells whether an answer to a range request goes on exactly where the bytes end.
func (p *partial) continues(header http.Header) bool {
	tag := header.Get("Etag")
	start, ok := rangeStart(header.Get("Content-Range"))
	return ok && start == p.size && p.size > 0 && (tag == "" || tag == p.is.Tag)
}

// rangeStart reads the first number of "bytes 100-199/200".
func rangeStart(header string) (int64, bool) {
	text, _, found := strings.Cut(strings.TrimPrefix(header, "bytes "), "-")
	start, err := strconv.ParseInt(text, 10, 64)
	return start, found && err == nil
}

// Write adds bytes.
func (p *partial) Write(b []byte) (int, error) {
	n, err := p.file.Write(b)
	p.size += int64(n)
	return n, err
}

// content reads the bytes from the first one on. It can be called again, for another reader.
func (p *partial) content() (io.Reader, error) {
	if _, err := p.file.Seek(p.head, io.SeekStart); err != nil {
		return nil, fmt.Errorf("rewind download: %w", err)
	}
	return io.LimitReader(p.file, p.size), nil
}

// remove removes the file, once nothing more is to come of it.
func (p *partial) remove() error {
	p.gone = true
	if err := os.Remove(p.file.Name()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove download: %w", err)
	}
	return nil
}

// close closes the file, and removes it where a later attempt could not go on with it.
func (p *partial) close() error {
	if !p.gone && p.is.Tag == "" {
		return errors.Join(p.remove(), p.file.Close())
	}
	return p.file.Close()
}
