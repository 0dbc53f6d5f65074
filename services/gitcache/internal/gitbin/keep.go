// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitbin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leatdev/leat/services/gitcache/internal/backend"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack"
)

// IsFull returns true: see [backend.Tools].
func (program) IsFull() bool { return true }

// Keep implements [backend.Tools].
func (p program) Keep(ctx context.Context, a backend.Arrival) error {
	admitted, err := pack.Admit(ctx, filepath.Join(a.Dir, "objects", "pack"), a.Pack, p.budget)
	if err != nil {
		return fmt.Errorf("store pack: %w", err)
	}
	a.Pack = admitted
	name, err := p.index(ctx, a)
	if err = errors.Join(err, admitted.Close()); err != nil {
		return fmt.Errorf("store pack: %w", err)
	}
	if a.IsPartial && len(a.Tips) > 0 {
		return p.checkTrees(ctx, a, name)
	}
	return nil
}

// fsckIgnored lists the defects of objects that are harmless, and that real repositories have in
// their old history.
var fsckIgnored = []string{
	"badDate", "badDateOverflow", "badEmail", "badName", "badTimezone", "missingEmail", "missingNameBeforeEmail",
	"missingSpaceBeforeDate", "missingSpaceBeforeEmail", "missingTaggerEntry", "multipleAuthors", "nulInCommit", "zeroPaddedDate",
	"zeroPaddedFilemode", "badTagName",
}

// indexing keeps git within the admitted memory: git streams large files instead of holding them,
// and drops delta bases early.
var indexing = []string{"-c", "core.bigFileThreshold=16m", "-c", "core.deltaBaseCacheLimit=32m"}

// index has git check and index a pack, and returns its name. Bases that a thin pack lacks are
// added to it.
func (p program) index(ctx context.Context, a backend.Arrival) (string, error) {
	arguments := slices.Concat(indexing, []string{"index-pack", "--stdin", "--fix-thin"})
	if !a.IsPartial { // git has no check but one that wants all blobs
		arguments = append(arguments, "--strict="+strings.Join(fsckIgnored, "=ignore,")+"=ignore")
	}
	run := p.command(ctx, a.Dir, arguments...)
	var printed bytes.Buffer
	run.cmd.Stdout = &printed
	stdin, err := run.cmd.StdinPipe()
	if err != nil {
		return "", fmt.Errorf("start git: %w", err)
	}
	if err := run.start(); err != nil {
		return "", fmt.Errorf("start git: %w", err)
	}
	source := &errReader{Reader: a.Pack}
	_, broken := io.Copy(stdin, source)
	broken = errors.Join(broken, stdin.Close())
	ended := run.wait()
	switch {
	case source.err != nil: // git was handed half a pack
		return "", source.err
	case ended == nil && broken != nil:
		return "", fmt.Errorf("hand over pack: %w", broken)
	}
	if _, ok := errors.AsType[*exitError](ended); ok {
		return "", fmt.Errorf("%w: %w", uploadpack.ErrBroken, ended)
	}
	return strings.TrimPrefix(strings.TrimSpace(printed.String()), "pack\t"), ended
}

// errReader keeps the error that ended the reading.
type errReader struct {
	io.Reader
	err error
}

// Read implements io.Reader.
func (r *errReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// checkTrees makes sure that the tips came with all of their history and trees, as far as the
// mirror did not hold them. Otherwise it removes the pack of that name.
func (p program) checkTrees(ctx context.Context, a backend.Arrival, name string) error {
	var tips strings.Builder
	for _, id := range a.Tips {
		tips.WriteString(id + "\n")
	}
	for _, ref := range a.Have {
		tips.WriteString("^" + ref.Object + "\n")
	}
	_, ended := p.output(ctx, a.Dir, strings.NewReader(tips.String()),
		"rev-list", "--objects", "--filter=blob:none", "--quiet", "--stdin")
	if _, ok := errors.AsType[*exitError](ended); ok {
		ended = fmt.Errorf("%w: the pack is not complete: %w", uploadpack.ErrBroken, ended)
	}
	if ended != nil { // the next fetch would consider the incomplete pack complete
		return errors.Join(ended, dropPack(a.Dir, name))
	}
	return nil
}

// dropPack removes a pack that no ref of the mirror needs.
func dropPack(dir, name string) error {
	if !pack.IsName(name) {
		return fmt.Errorf("git named the pack %q", name)
	}
	var errs []error
	for _, ending := range []string{".pack", ".rev", ".idx"} {
		err := os.Remove(filepath.Join(dir, "objects", "pack", "pack-"+name+ending))
		if !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
