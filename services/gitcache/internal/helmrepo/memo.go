// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helmrepo

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/attestation"
	"github.com/leatdev/leat/services/gitcache/internal/chartindex"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	// memoVersion changes with the form of the memo. A memo of another version is not read.
	memoVersion = 1
	// maxMemo bounds the size of a memo. The memo of the largest index takes some 20 MiB.
	maxMemo = 64 << 20
)

// memo is the state that a fetch leaves to the next one, and to the fills in between. It is kept as
// lines of JSON, compressed: the header, the charts one by one, and the footer. A poll that finds
// nothing new reads the first line alone.
type memo struct {
	header header
	index  *chartindex.Index // nil: not known
	footer
}

// footer is needed only by a fetch or a fill that changes something.
type footer struct {
	Notes     notes     `json:"notes,omitempty"`
	Withdrawn withdrawn `json:"withdrawn,omitempty"`
	// Signatures is the state of the signatures; empty where none are required.
	Signatures attestation.Ledger `json:"signatures,omitzero"`
}

// header is the part that a poll needs.
type header struct {
	Version int `json:"version"`
	// For identifies what the refs depend on besides the index.
	For string `json:"for"`
	// ETag and Modified are the server's words for the index, Sum is the index's SHA-256.
	ETag     string `json:"etag,omitempty"`
	Modified string `json:"modified,omitempty"`
	Sum      string `json:"sum"`
	Charts   int    `json:"charts"`
	// Skipped and Reasons are the index's.
	Skipped int      `json:"skipped,omitempty"`
	Reasons []string `json:"reasons,omitempty"`
	// NextQuestion is when to ask again for a signature that is missing. Nil: none is.
	NextQuestion *time.Time `json:"next_question,omitempty"`
}

// dependsOn returns what the refs of a mirror depend on besides the index.
func dependsOn(def mirror.Definition) string {
	text := fmt.Appendf(nil, "%q %q %t", def.URL, string(def.Charts), def.Immutable)
	if policy := attestation.Fingerprint(def.Verification); policy != "" {
		text = fmt.Appendf(text, " %s", policy)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// isCurrent reports whether the mirror is as new as the header's index.
func (h header) isCurrent(p mirror.FetchParams) bool {
	return h.Version == memoVersion && p.Have.Exists() && h.For == dependsOn(p.Definition) &&
		p.Have.Policy == attestation.Fingerprint(p.Definition.Verification)
}

// isQuestionDue reports whether a signature is to be asked for again.
func (h header) isQuestionDue(now time.Time) bool {
	return h.NextQuestion != nil && !now.Before(*h.NextQuestion)
}

// validatorsFor returns the conditions under which a server is to send the index.
func (h header) validatorsFor(p mirror.FetchParams) validators {
	if !h.isCurrent(p) {
		return validators{}
	}
	return validators{etag: h.ETag, modified: h.Modified}
}

// recall returns the header of the mirror's memo, or the zero header where there is none that can be
// read.
func (u *Upstream) recall(ctx context.Context, p mirror.FetchParams) header {
	r, err := u.openMemo(p.Definition.UID)
	if err == nil {
		defer func() { _ = r.Close() }()
		return r.header
	}
	if !errors.Is(err, artifact.ErrNoMemo) {
		u.params.Logger.WarnContext(ctx, "memo of the mirror not read", slog.String("leat.repository", p.Definition.Name), slog.Any("error", err))
	}
	return header{}
}

// recallAll returns the memo of a mirror, and the zero memo where there is none.
func (u *Upstream) recallAll(uid string) (memo, error) {
	r, err := u.openMemo(uid)
	if errors.Is(err, artifact.ErrNoMemo) {
		return memo{}, nil
	}
	if err != nil {
		return memo{}, err
	}
	defer func() { _ = r.Close() }()
	m := memo{header: r.header, index: &chartindex.Index{Skipped: r.header.Skipped, Reasons: r.header.Reasons}}
	for range r.header.Charts {
		var chart chartindex.Chart
		if err := r.lines.Decode(&chart); err != nil {
			return memo{}, fmt.Errorf("read chart: %w", err)
		}
		m.index.Charts = append(m.index.Charts, chart)
	}
	if err := r.lines.Decode(&m.footer); err != nil {
		return memo{}, fmt.Errorf("read footer: %w", err)
	}
	return m, nil
}

// memoReader reads a memo, of which it has read the header.
type memoReader struct {
	io.Closer
	lines  *json.Decoder
	header header
}

func (u *Upstream) openMemo(uid string) (*memoReader, error) {
	file, err := u.params.Mirrors.Memo(uid)
	if err != nil {
		return nil, err
	}
	r := &memoReader{Closer: file}
	plain, err := gzip.NewReader(file)
	if err == nil {
		r.lines = json.NewDecoder(io.LimitReader(plain, maxMemo))
		err = r.lines.Decode(&r.header)
	}
	if err == nil && (r.header.Version != memoVersion || r.header.Charts < 0 || r.header.Charts > chartindex.DefaultLimits().Charts) {
		err = fmt.Errorf("it has the version %d, want %d", r.header.Version, memoVersion)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open memo: %w", err), file.Close())
	}
	return r, nil
}

// write writes the memo as recallAll reads it.
func (m memo) write(w io.Writer) error {
	packed := gzip.NewWriter(w)
	lines := json.NewEncoder(packed)
	if err := lines.Encode(m.header); err != nil {
		return err
	}
	for _, chart := range m.index.Charts {
		if err := lines.Encode(chart); err != nil {
			return err
		}
	}
	if err := lines.Encode(m.footer); err != nil {
		return err
	}
	return packed.Close()
}
