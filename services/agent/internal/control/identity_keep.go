// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
)

// Keep stores small files outside of the data directory. They survive its loss, and other replicas
// can read them.
type Keep interface {
	// Load returns the files that were stored last, or nil if there are no such files.
	Load(ctx context.Context) (map[string][]byte, error)
	// Store replaces the stored files.
	Store(ctx context.Context, files map[string][]byte) error
}

// RestoreIdentity restores key and identity into the data directory dir if they are missing there,
// or older than those in the keep. It must run before OpenIdentity. A keep that cannot be read is
// an error only if the directory has no key.
func RestoreIdentity(ctx context.Context, dir string, keep Keep, logger *slog.Logger) error {
	own, err := identityFiles(dir)
	if err != nil {
		return err
	}
	kept, err := keep.Load(ctx)
	if err != nil {
		if own != nil {
			logger.WarnContext(ctx, "cannot read kept identity, continuing with the one in the data folder", slog.Any("error", err))
			return nil
		}
		return fmt.Errorf("load identity: %w", err)
	}
	if !enrolledAt(kept).After(enrolledAt(own)) {
		return nil
	}
	logger.InfoContext(ctx, "identity restored")
	for _, name := range slices.Sorted(maps.Keys(kept)) { // the key comes first
		if name != keyFile && name != identityFile {
			continue
		}
		if err := writeFile(filepath.Join(dir, name), kept[name]); err != nil {
			return err
		}
	}
	return nil
}

// KeepIdentity stores key and identity in the keep whenever they change, until ctx is done. It
// returns nil then.
func (i *Identity) KeepIdentity(ctx context.Context, keep Keep) error {
	var stored time.Time
	_ = backoff.Retry(ctx, keepRetry(), func(ctx context.Context) error {
		kept, err := keep.Load(ctx)
		stored = enrolledAt(kept)
		return i.complain(ctx, err)
	})
	for ctx.Err() == nil {
		_ = backoff.Retry(ctx, keepRetry(), func(ctx context.Context) error {
			files, err := identityFiles(i.params.Dir)
			if at := enrolledAt(files); err == nil && !at.Equal(stored) {
				if err = keep.Store(ctx, files); err == nil {
					stored = at
				}
			}
			return i.complain(ctx, err)
		})
		select {
		case <-ctx.Done():
		case <-i.enrolled:
		}
	}
	return nil
}

// keepRetry spaces attempts to use a keep without the right to: a person has to grant the right
// first.
func keepRetry() backoff.Policy { return backoff.Policy{Initial: time.Second, Max: 10 * time.Minute} }

// complain logs once that the keep cannot be used.
func (i *Identity) complain(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil {
		i.complaint.Do(func() {
			i.params.Logger.WarnContext(ctx, "identity cannot be kept in the cluster, so that it is lost with the data folder",
				slog.Any("error", err))
		})
	}
	return err
}

// identityFiles reads the files of an enrolled identity, or returns nil if there is no such
// identity.
func identityFiles(dir string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range []string{keyFile, identityFile} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read identity: %w", err)
		}
		files[name] = content
	}
	return files, nil
}

// enrolledAt returns when an identity was enrolled, or zero if it is incomplete.
func enrolledAt(files map[string][]byte) time.Time {
	var state identityState
	if len(files[keyFile]) == 0 || json.Unmarshal(files[identityFile], &state) != nil {
		return time.Time{}
	}
	if state.EnrolledAt.IsZero() {
		return time.Unix(0, 0) // written by an agent that did not record the time yet
	}
	return state.EnrolledAt
}
