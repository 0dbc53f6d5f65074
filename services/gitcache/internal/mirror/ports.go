// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// FetchParams says what to fetch, into what, and under which right.
type FetchParams struct {
	Definition Definition
	// Have is what the mirror holds; the zero Content means that it has to be cloned.
	Have Content
	// Epoch is that of the lease; it is kept with the content.
	Epoch uint64
	// Guard is asked right before any byte goes to the upstream, and before the fetched refs become the mirror's. An
	// error means that the right to fetch is gone: the fetch ends with it.
	Guard func() error
	// Received is told how many bytes came from the upstream, as they come, from any goroutine. Nil: nobody counts.
	Received func(bytes int)
	// Admit is asked right before the fetched refs become the mirror's, with a reader of what was fetched, and returns them
	// with what of each is delivered. An error ends the fetch. Nil: everything is.
	Admit func(ctx context.Context, fetched content.Reader, c Content) (Content, error)
}

// Backend is one replica's machinery for mirrors: it talks to upstreams, and keeps and reads mirrors on this replica's disk.
// One value implements all of it, because the parts share the disk: a fetch writes what Open reads and Export lists. Its
// methods may be called concurrently, those that write a mirror for different repositories only.
type Backend interface {
	Upstream
	Gate
	Mirrors
	Copies
	Disk
	content.Opener
}

// Upstream talks to upstreams. Its methods may be called concurrently, Fetch and Fill for different repositories only.
type Upstream interface {
	// Check tells, without talking to anybody, whether a definition can be used. The error is a *FieldError.
	Check(def Definition) error
	// Fetch lists the upstream's refs and, if any moved, brings the mirror up to them. When it returns, the mirror
	// durably holds the content returned. On an error the mirror holds what it held before. Errors are
	// *UpstreamError, the guard's, or the context's.
	Fetch(ctx context.Context, p FetchParams) (Content, error)
	// Fill makes a partial mirror durably hold the blobs of those ids besides what it holds, which is p.Have. Admit is not
	// asked: no ref moves. On an error some may have arrived. Errors are those of Fetch. A back end whose Check refuses
	// partial clones is never asked to fill one.
	Fill(ctx context.Context, p FetchParams, ids []string) (Content, error)
}

// Mirrors are the mirrors on this replica's disk.
type Mirrors interface {
	// Load returns what the mirror of that UID holds, after making sure that it can be read. ErrNoMirror: there is none,
	// or it was damaged and has been dropped.
	Load(ctx context.Context, uid string) (Content, error)
	// SaveDelivery keeps durably what of the refs is delivered, as c says; all else of the mirror stays as it is.
	SaveDelivery(ctx context.Context, uid string, c Content) error
	// Remove deletes a mirror. Removing one that does not exist is no error.
	Remove(ctx context.Context, uid string) error
}

// Registry keeps the definitions that all replicas share. All methods may be called concurrently.
type Registry interface {
	// Put makes a definition known to all replicas, unless a newer version of the same UID is known already.
	Put(ctx context.Context, def Definition) error
	// Delete forgets a repository. A definition with a version higher than the given one stays; version 0 deletes
	// whatever is there. It returns the definition that was deleted, and false when there was none.
	Delete(ctx context.Context, name string, version int64) (Definition, bool, error)
}

// Logged is an event with its place in the log.
type Logged struct {
	Token string
	Event Event
}

// EventLog carries events between replicas: ordered, bounded, fenced. All methods may be called concurrently. Failures of
// the store behind it match ErrDependency.
type EventLog interface {
	// Append adds an event, and keeps its state as the repository's last. ErrEpochStale: a newer owner exists.
	Append(ctx context.Context, e Event) error
	// States returns the last event of every repository, and the token after which live events follow.
	States(ctx context.Context) ([]Event, string, error)
	// Read returns events after token, oldest first; it waits for one until ctx is done, and then returns none.
	// ErrResumeExpired: events after token have been dropped.
	Read(ctx context.Context, token string) ([]Logged, error)
}

// Peers are the replicas that share the repositories.
type Peers interface {
	// Members returns the base URLs of the live replicas, in any order. It answers from memory, and may not know of this
	// replica before its first heartbeat.
	Members() []string
}

// Replicas reaches other replicas by their base URLs.
type Replicas interface {
	// FetchBlobs makes the owner's partial mirror hold blobs. ErrNotOwner: that replica is not the owner.
	FetchBlobs(ctx context.Context, replica string, def Definition, ids []string) error
	// Inspect tells what a replica's mirror of a repository holds. known is the fingerprint of what this replica's own
	// holds; where the two are the same, the answer has no refs and files. ErrNoMirror: there is none over there.
	Inspect(ctx context.Context, replica string, def Definition, known string) (Copy, error)
	// Read opens a file of the mirror that Inspect described. ErrNoMirror: it is gone. Reading fails when the other
	// replica sends nothing for some seconds.
	Read(ctx context.Context, replica string, def Definition, generation, name string) (io.ReadCloser, error)
	// TakeOver tells a replica that a lease is reserved for it, and returns once it owns the repository.
	TakeOver(ctx context.Context, replica string, def Definition) error
}

// Gate spreads what goes to one host over time, whatever number of repositories it has. Its methods may be called
// concurrently.
type Gate interface {
	// Enter waits, fairly, until the definition's host may have one more conversation, and returns what ends it. Errors
	// are the context's, or a *QuietError while the host wants to be left alone.
	Enter(ctx context.Context, def Definition) (leave func(), err error)
}

// QuietError tells that a host asked to be left alone, of whichever repository it was asked. It is no failure of the
// repository: nothing was sent.
type QuietError struct {
	Host  string
	Until time.Time
}

// Error implements error.
func (e *QuietError) Error() string {
	return fmt.Sprintf("%s asks to be left alone until %s", e.Host, e.Until.UTC().Format(time.RFC3339))
}

// Objects are what repositories have outside Git, beside their mirrors. Its methods may be called concurrently.
type Objects interface {
	// Copy makes this replica hold what another one holds of a repository, too.
	Copy(ctx context.Context, replica string, def Definition) error
	// Remove deletes all that a repository has. Removing nothing is no error.
	Remove(ctx context.Context, uid string) error
}

// OwnerTask is what an owner may ask of its upstream besides fetching.
type OwnerTask struct {
	Definition Definition
	// Guard is asked right before any byte goes to the upstream, as that of [FetchParams].
	Guard func() error
}
