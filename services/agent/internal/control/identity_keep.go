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

	"github.com/leatdev/leat/internal/backoff"
)

// Keep keeps small files outside of the data directory, where they survive its loss and other replicas find them.
type Keep interface {
	// Load returns what was stored last; nil when nothing was.
	Load(ctx context.Context) (map[string][]byte, error)
	// Store replaces what was stored.
	Store(ctx context.Context, files map[string][]byte) error
}

// RestoreIdentity brings key and identity back into the data directory dir where they are missing, or older than those in the
// keep. It has to be done before OpenIdentity. A keep that cannot be read is an error only where the directory has no key.
func RestoreIdentity(ctx context.Context, dir string, keep Keep, logger *slog.Logger) error {
	own, err := identityFiles(dir)
	if err != nil {
		return err
	}
	kept, err := keep.Load(ctx)
	if err != nil {
		if own != nil {
			logger.WarnContext(ctx, "kept identity cannot be read, going on with the one in the data folder", slog.Any("error", err))
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

// KeepIdentity stores key and identity in the keep whenever they change, until ctx is done. It returns nil then.
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

// keepRetry spaces tries of a keep that may not be used: somebody has to grant the right first.
func keepRetry() backoff.Policy { return backoff.Policy{Initial: time.Second, Max: 10 * time.Minute} }

// complain says that the keep cannot be used, once.
func (i *Identity) complain(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil {
		i.complaint.Do(func() {
			i.params.Logger.WarnContext(ctx, "identity cannot be kept in the cluster, so that it is lost with the data folder", slog.Any("error", err))
		})
	}
	return err
}

// identityFiles reads the files of an identity that is enrolled; nil when there is none.
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

// enrolledAt is when an identity was enrolled; zero when it is none, or incomplete.
func enrolledAt(files map[string][]byte) time.Time {
	var state identityState
	if len(files[keyFile]) == 0 || json.Unmarshal(files[identityFile], &state) != nil {
		return time.Time{}
	}
	if state.EnrolledAt.IsZero() {
		return time.Unix(0, 0) // by an agent that did not note it yet
	}
	return state.EnrolledAt
}
