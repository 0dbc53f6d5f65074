// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// MismatchError means that an upstream sent other bytes than it announced.
type MismatchError struct{ Got, Want string } // digests of 64 digits

// Error implements error.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("got content with the digest %s, want %s", e.Got, e.Want)
}

// errDownloadTooLong is a download of more bytes than any artifact may have.
var errDownloadTooLong = errors.New("the download is too long")

// Consume has use read what r sends, then reads the rest of it, and returns its SHA-256. It reads at
// most limit bytes. The error is r's own where reading failed; else a *MismatchError where want, 64
// digits, is given and is not the digest; else use's. So whatever use found wrong is reported only of
// content that arrived as it was announced.
func Consume(r io.Reader, want string, limit int64, use func(io.Reader) error) (got string, err error) {
	source := &source{in: r, left: limit}
	hash := sha256.New()
	teed := io.TeeReader(source, hash)
	err = use(teed)
	if source.failed == nil {
		_, _ = io.Copy(io.Discard, teed) // source has the error
	}
	got = hex.EncodeToString(hash.Sum(nil))
	switch {
	case errors.Is(source.failed, errDownloadTooLong):
		return got, &mirror.ArtifactError{
			Reason:  reason.BundleTooLarge,
			Message: fmt.Sprintf("The artifact has more than %d bytes; split it, or raise the limit of bundles.", limit),
		}
	case source.failed != nil:
		return got, source.failed
	case want != "" && got != want:
		return got, &MismatchError{Got: got, Want: want}
	}
	return got, err
}

// source reads at most left bytes, and remembers how reading failed.
type source struct {
	in     io.Reader
	left   int64
	failed error // not io.EOF
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	if s.failed != nil {
		return 0, s.failed
	}
	n, err := s.in.Read(p[:min(int64(len(p)), s.left+1)])
	if s.left -= int64(n); s.left < 0 {
		s.failed = errDownloadTooLong
		return 0, s.failed
	}
	if err != nil && !errors.Is(err, io.EOF) {
		s.failed = err
	}
	return n, err
}

// Unusable returns an error about the content of an artifact as a *mirror.ArtifactError, and other
// errors as they are.
func Unusable(err error) error {
	if entry, ok := errors.AsType[*bundle.EntryError](err); ok {
		return &mirror.ArtifactError{
			Reason: reason.ContentUnsupported, Path: entry.Name,
			Message: fmt.Sprintf("The artifact's entry %.200q %s; package it without.", entry.Name, entry.Reason),
		}
	}
	if limit, ok := errors.AsType[*bundle.LimitError](err); ok {
		return &mirror.ArtifactError{
			Reason: reason.BundleTooLarge, Path: limit.Name,
			Message: fmt.Sprintf("The artifact exceeds the limit of %d %s; split it, or raise the limit.", limit.Max, limit.Limit),
		}
	}
	if errors.Is(err, ErrArchive) {
		return &mirror.ArtifactError{
			Reason: reason.ContentUnsupported, Message: fmt.Sprintf("The artifact cannot be unpacked: %.300s.", err),
		}
	}
	return err
}
