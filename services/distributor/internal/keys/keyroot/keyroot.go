// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package keyroot wraps the keys that seal the catalog's secrets. The wrapped keys are kept beside
// what they seal, so a copy of the database opens nothing without the root.
//
// A root is asked when a replica starts, and once for each rotation: never for a single secret.
package keyroot

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/leatdev/leat/internal/kit/seal"
	"github.com/leatdev/leat/internal/kit/secret"
)

var (
	// ErrUnavailable is in the chain of the error when a root cannot be asked now. The same call may
	// succeed later.
	ErrUnavailable = errors.New("root of the sealing keys does not answer")
	// ErrRefused is in the chain of the error when a root does not unwrap a key: the key was changed,
	// or was wrapped by another root or for another place.
	ErrRefused = errors.New("root does not open the key")
)

// Root wraps keys. Implementations are safe for concurrent use.
type Root interface {
	// Name identifies the root, such as "local/0123456789abcdef". It is stored beside each wrapped
	// key and reveals nothing. Roots with equal names unwrap each other's keys.
	Name() string
	// Wrap encrypts a key and binds it to its place. Errors match [ErrUnavailable] or are permanent.
	Wrap(ctx context.Context, key []byte, place string) ([]byte, error)
	// Unwrap returns the key that [Root.Wrap] was given with the same place. Errors match
	// [ErrUnavailable] or [ErrRefused].
	Unwrap(ctx context.Context, wrapped []byte, place string) ([]byte, error)
}

// purpose separates this use of a local key from its others.
const purpose = "root of the catalog's keys"

// Local is a root that is a secret of this process, from a file or the environment.
type Local struct {
	id     seal.KeyID
	sealer *seal.Sealer
}

var _ Root = (*Local)(nil)

// NewLocal returns the root of a secret of at least [seal.MinSecret] bytes.
func NewLocal(text []byte) (*Local, error) {
	key, err := seal.NewKey(text)
	if err != nil {
		return nil, err
	}
	sealer, err := seal.NewKeyring(key).Sealer(purpose)
	if err != nil {
		return nil, err
	}
	return &Local{id: key.ID(), sealer: sealer}, nil
}

// Name implements [Root].
func (l *Local) Name() string { return "local/" + l.id.String() }

// Wrap implements [Root].
func (l *Local) Wrap(_ context.Context, key []byte, place string) ([]byte, error) {
	return l.sealer.Seal(key, []byte(place))
}

// Unwrap implements [Root].
func (l *Local) Unwrap(_ context.Context, wrapped []byte, place string) ([]byte, error) {
	key, err := l.sealer.Open(wrapped, []byte(place))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return key, nil
}

const (
	// maxLocal bounds the keys of a list.
	maxLocal = 16
	// maxLine bounds one key of a list.
	maxLine = 4 << 10
)

// ParseLocal returns the roots of a list of secrets, one a line. It ignores empty lines and lines
// that begin with "#". The errors name lines by their number and never contain a secret.
func ParseLocal(list secret.Text) ([]Root, error) {
	var roots []Root
	lines := bufio.NewScanner(strings.NewReader(list.Reveal()))
	lines.Buffer(nil, maxLine)
	number := 0
	for lines.Scan() {
		number++
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		root, err := NewLocal([]byte(line))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if roots = append(roots, root); len(roots) > maxLocal {
			return nil, fmt.Errorf("got more than %d keys", maxLocal)
		}
	}
	if lines.Err() != nil {
		return nil, fmt.Errorf("line %d: longer than %d bytes", number+1, maxLine)
	}
	return roots, nil
}
