// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/leatdev/leat/internal/contract/bundle"
)

// ErrArchive means that bytes are not an archive that Leat unpacks.
var ErrArchive = errors.New("not a tar archive")

// Sink takes what an artifact holds.
type Sink interface {
	// Add takes a file or a symbolic link; body has e.Size bytes, and is empty for a link. Its name
	// and target are such as a bundle may hold, and no name comes twice.
	Add(e bundle.Entry, body io.Reader) error
}

// Params set how an archive is unpacked.
type Params struct {
	// Chart: the archive holds one folder with a Chart.yaml, and the names of its entries are relative
	// to that folder.
	Chart bool
	// Limits are the limits of bundles. Zero: the defaults.
	Limits bundle.Limits
}

const (
	blockBytes = 512
	// entriesPerFile bounds the headers of an archive, folders among them, by the files that it may
	// have.
	entriesPerFile = 4
	// expansion bounds what decompressing makes, by the bytes of a bundle: archives have headers that
	// bundles have not.
	expansion = 2

	chartFile = "Chart.yaml"
)

// Unpack reads a tar, compressed by gzip, by zstd or not at all, and hands its files to sink in the
// archive's order. The errors are *bundle.EntryError, *bundle.LimitError, errors that match
// ErrArchive, the sink's, the reader's and the context's.
func Unpack(ctx context.Context, r io.Reader, p Params, sink Sink) error {
	limits := p.Limits.WithDefaults()
	plain, err := decompress(r, expansion*limits.Bytes)
	if err != nil {
		return err
	}
	defer func() { _ = plain.Close() }()
	u := &unpacking{limits: limits, isChart: p.Chart, sink: sink, names: map[string]bool{}}
	archive := tar.NewReader(plain)
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return u.finish()
		}
		if err != nil {
			return archiveError(err)
		}
		if err := u.add(header, archive); err != nil {
			return err
		}
	}
}

var (
	magicGzip = []byte{0x1f, 0x8b}
	magicZstd = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// decompress returns what r holds without its compression, of which the first bytes tell.
func decompress(r io.Reader, limit int64) (io.ReadCloser, error) {
	in := bufio.NewReader(r)
	begin, err := in.Peek(len(magicZstd))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(begin, magicGzip):
		plain, err := gzip.NewReader(in)
		if err != nil {
			return nil, archiveError(err)
		}
		return limited{&bounded{in: plain, left: limit, limit: limit}, plain}, nil
	case bytes.Equal(begin, magicZstd):
		return bundle.Decompress(in, limit)
	default:
		return limited{&bounded{in: in, left: limit, limit: limit}, io.NopCloser(in)}, nil
	}
}

type limited struct {
	io.Reader
	io.Closer
}

// bounded fails with a *bundle.LimitError where more than limit bytes come.
type bounded struct {
	in          io.Reader
	left, limit int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.in.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return 0, &bundle.LimitError{Limit: bundle.LimitBytes, Max: b.limit}
	}
	return n, err
}

// archiveError marks an error of a format. Limits, and what the source failed with, stay as they
// are; [Consume] knows the latter.
func archiveError(err error) error {
	if _, ok := errors.AsType[*bundle.LimitError](err); ok {
		return err
	}
	return fmt.Errorf("%w: %w", ErrArchive, err)
}

// unpacking judges the entries of one archive.
type unpacking struct {
	limits   bundle.Limits
	isChart  bool
	sink     Sink
	names    map[string]bool
	entries  int
	bytes    int64
	folder   string // the chart's; empty before the first entry
	hasChart bool
}

func (u *unpacking) add(header *tar.Header, body io.Reader) error {
	if u.entries++; u.entries > entriesPerFile*u.limits.Files {
		return &bundle.LimitError{Limit: bundle.LimitFiles, Max: int64(u.limits.Files), Name: header.Name}
	}
	e := bundle.Entry{Executable: header.Mode&0o100 != 0}
	switch header.Typeflag {
	case tar.TypeReg:
		e.Size = header.Size
	case tar.TypeSymlink:
		e.Executable, e.Target = false, header.Linkname
	case tar.TypeDir, tar.TypeXGlobalHeader:
		return nil
	case tar.TypeLink:
		return &bundle.EntryError{Name: header.Name, Reason: "is a hard link"}
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return &bundle.EntryError{Name: header.Name, Reason: "is a device"}
	default:
		return &bundle.EntryError{Name: header.Name, Reason: fmt.Sprintf("is of type %q, want a file, a folder or a symbolic link", header.Typeflag)}
	}
	var err error
	if e.Name, err = u.name(header.Name); err != nil {
		return err
	}
	if err := u.admit(e, header.Typeflag == tar.TypeSymlink); err != nil {
		return err
	}
	content := &entryReader{in: io.LimitReader(body, e.Size)}
	if err := u.sink.Add(e, content); err != nil {
		if content.failed != nil {
			return archiveError(content.failed)
		}
		return err
	}
	return nil
}

// name returns the name of an entry in the artifact.
func (u *unpacking) name(raw string) (string, error) {
	name := strings.TrimPrefix(raw, "./")
	if err := bundle.CheckName(name); err != nil {
		return "", err
	}
	if !u.isChart {
		return name, nil
	}
	folder, below, ok := strings.Cut(name, "/")
	if u.folder == "" {
		u.folder = folder
	}
	if !ok || folder != u.folder {
		return "", &bundle.EntryError{Name: name, Reason: "lies outside of the chart's folder, which has to come first"}
	}
	u.hasChart = u.hasChart || below == chartFile
	return below, nil
}

// admit counts an entry, and holds it to the limits.
func (u *unpacking) admit(e bundle.Entry, isLink bool) error {
	if u.names[e.Name] {
		return &bundle.EntryError{Name: e.Name, Reason: "comes twice"}
	}
	if isLink {
		if err := bundle.CheckTarget(e.Name, e.Target); err != nil {
			return err
		}
	}
	u.names[e.Name] = true
	u.bytes += blockBytes + (e.Size+blockBytes-1)/blockBytes*blockBytes
	switch {
	case e.Size < 0:
		return &bundle.EntryError{Name: e.Name, Reason: "has a negative size"}
	case len(u.names) > u.limits.Files:
		return &bundle.LimitError{Limit: bundle.LimitFiles, Max: int64(u.limits.Files), Name: e.Name}
	case e.Size > u.limits.FileBytes:
		return &bundle.LimitError{Limit: bundle.LimitFileBytes, Max: u.limits.FileBytes, Name: e.Name}
	case u.bytes > u.limits.Bytes:
		return &bundle.LimitError{Limit: bundle.LimitBytes, Max: u.limits.Bytes, Name: e.Name}
	}
	return nil
}

func (u *unpacking) finish() error {
	if u.isChart && !u.hasChart {
		return fmt.Errorf("%w of a chart: its folder has no %s", ErrArchive, chartFile)
	}
	if u.entries == 0 {
		return fmt.Errorf("%w: it is empty", ErrArchive)
	}
	return nil
}

// entryReader reads one entry, and remembers how reading failed: a sink's own failure is another
// matter.
type entryReader struct {
	in     io.Reader
	failed error
}

// Read implements io.Reader.
func (r *entryReader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	if err != nil && err != io.EOF {
		r.failed = err
	}
	return n, err
}
