// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package imagesync

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
	"github.com/leatdev/leat/services/distributor/internal/fleetgit/imagemark"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Bounds of what a policy reads and writes.
const (
	maxFiles = 2_000
	maxBytes = 32 << 20
	maxMarks = 1_000
	// maxWritten bounds the bytes of changed files: see PushCommitRequest.files.
	maxWritten = 8 << 20
	// maxListed bounds the marks that a problem names.
	maxListed = 3
)

// reading is what the files of a folder hold for one policy.
type reading struct {
	// files are the new contents of the files that change, by their paths from the root of the repository, and changed their changed
	// lines.
	files   map[string][]byte
	changed []imagemark.Mark
	// marks counts the lines that name the policy, and unusable describes some of those that cannot be used.
	marks         int
	unusable      []string
	unusableCount int
}

// read reads the files of a snapshot, and rewrites their marked lines in memory.
func (l *looker) read(ctx context.Context, policy *catalog.ImagePolicy, source catalog.Source, snapshot catalog.Snapshot, values imagemark.Values) (*reading, error) {
	if snapshot.ContentSize > maxBytes {
		return nil, tooMuch("the folder has %d bytes of YAML; at most %d are allowed", snapshot.ContentSize, maxBytes)
	}
	from := source.Normal()
	blob, err := l.p.Bundles.Open(ctx, plan.Bundle{Digest: snapshot.Digest, Commit: snapshot.Commit, Version: snapshot.Version, Source: from, Subpath: from.Subpath()})
	if err != nil {
		return nil, unread(ctx, err)
	}
	defer func() { _ = blob.Close() }() // only read
	content, err := bundle.Decompress(blob, snapshot.ContentSize)
	if err != nil {
		return nil, unread(ctx, err)
	}
	defer func() { _ = content.Close() }() // only read
	f := folder{policy: policy.Mark(), root: from.Folder(), values: values, found: &reading{files: map[string][]byte{}}}
	if err := f.read(ctx, bundle.NewReader(digest.NewVerifier(content, snapshot.Digest), bundle.Limits{})); err != nil {
		return nil, err
	}
	return f.found, nil
}

// unread returns the failure of content that cannot be read now.
func unread(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, ok := errors.AsType[*resolve.Failure](err); ok {
		return err
	}
	return &resolve.Failure{Reason: reason.BundleUnavailable, Message: err.Error()}
}

func tooMuch(format string, args ...any) error {
	return &problemError{reason.ImageNoMarks, fmt.Sprintf(format, args...) + "; set the policy's spec.write.path to a smaller folder"}
}

// folder rewrites the files of one bundle.
type folder struct {
	policy string
	// root is where the bundle's root is in the repository.
	root    string
	values  imagemark.Values
	found   *reading
	files   int
	written int
}

// read reads a bundle to its end, by which it is verified.
func (f *folder) read(ctx context.Context, in *bundle.Reader) error {
	for {
		entry, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return unread(ctx, err)
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if entry.Target != "" || !slices.Contains([]string{".yaml", ".yml"}, path.Ext(entry.Name)) {
			continue // a link, or a file that the hub does not write
		}
		if f.files++; f.files > maxFiles {
			return tooMuch("the folder has more than %d files of YAML", maxFiles)
		}
		if entry.Size > imagemark.MaxFileBytes {
			continue // cannot be marked
		}
		content, err := io.ReadAll(in)
		if err != nil {
			return unread(ctx, err)
		}
		if err := f.file(path.Join(f.root, entry.Name), content); err != nil {
			return err
		}
	}
}

func (f *folder) file(name string, content []byte) error {
	if !imagemark.May(content, f.policy) {
		return nil
	}
	next, marks := imagemark.Rewrite(content, f.policy, f.values)
	if f.found.marks += len(marks); f.found.marks > maxMarks {
		return tooMuch("the folder has more than %d lines that name the policy", maxMarks)
	}
	isChanged := false
	for _, mark := range marks {
		switch {
		case mark.Problem != "":
			f.found.unusableCount++
			if len(f.found.unusable) < maxListed {
				f.found.unusable = append(f.found.unusable, fmt.Sprintf("%s:%d: %s", strings.ToValidUTF8(printable(name), ""), mark.Line, printable(mark.Problem)))
			}
		case mark.From != mark.To:
			f.found.changed = append(f.found.changed, mark)
			isChanged = true
		}
	}
	if !isChanged {
		return nil
	}
	if f.written += len(next); f.written > maxWritten {
		return tooMuch("the files that the policy changes have more than %d bytes", maxWritten)
	}
	f.found.files[name] = next
	return nil
}

// printable returns a text of a committer without what controls a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x2028 && r <= 0x202e {
			return '?'
		}
		return r
	}, text)
}

// problem returns the problem of the marks, or nil.
func (r *reading) problem(policy *catalog.ImagePolicy) error {
	switch {
	case r.marks == 0:
		return &problemError{reason.ImageNoMarks, fmt.Sprintf("no line names the policy; end the line of the image with the comment # leat: image=%s", policy.Mark())}
	case r.unusableCount > 0:
		return &problemError{reason.ImageNoMarks, fmt.Sprintf("%d of %d marks cannot be used: %s", r.unusableCount, r.marks, strings.Join(r.unusable, "; "))}
	}
	return nil
}

// identity identifies a change that is proposed: where it goes, and what the files become.
func (r *reading) identity(policy *catalog.ImagePolicy) string {
	hash := sha256.New()
	_, _ = fmt.Fprintf(hash, "%s %s\n", policy.Spec.Write.Repository, policy.Spec.Write.Branch) // never fails
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		_, _ = fmt.Fprintf(hash, "%d %s %x\n", len(name), name, sha256.Sum256(r.files[name])) // never fails
	}
	return hex.EncodeToString(hash.Sum(nil))
}
