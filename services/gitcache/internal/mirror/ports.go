// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// FetchParams are the content to fetch, the mirror, and the right to it.
type FetchParams struct {
	Definition Definition
	// Have is the content of the mirror. The zero Content: it has to be cloned.
	Have Content
	// Epoch is the lease's. It is kept with the content.
	Epoch uint64
	// IsRequested reports that a caller asked for the fetch: a webhook, or a person. They may know of
	// news that the refs do not show, such as another signature. Otherwise it is a poll.
	IsRequested bool
	// Guard is called right before any byte goes to the upstream, and before the fetched refs
	// become the mirror's. Its error means that the right to fetch is gone, and ends the fetch.
	Guard func() error
	// Received is called with the number of bytes that came from the upstream, as they come, from
	// any goroutine. Nil: the bytes are not counted.
	Received func(bytes int)
	// Admit is called right before the fetched refs become the mirror's, with a reader of what was
	// fetched. It returns the content with what each ref delivers. An error ends the fetch. Nil:
	// every ref delivers what it leads to. It is for Git: what refs of a Helm or OCI repository deliver
	// is decided by the Upstream, by Definition.Verification, because it has to ask for signatures.
	Admit func(ctx context.Context, fetched content.Reader, c Content) (Content, error)
	// Enter is for Fill alone. It blocks until the caller may write the mirror, and returns the
	// mirror's content then, which may be later than Have. The caller calls leave, once, with the
	// mirror's content in the end. Until then there is no other writer. Nil: the caller may write the
	// mirror all the time, and Have is its content.
	Enter func(ctx context.Context) (have Content, leave func(Content), err error)
}

// Write runs write between Enter and leave, with Have as it is then. It returns the params with the
// mirror's content after that, which is the result of write if that succeeded.
func (p FetchParams) Write(ctx context.Context, write func(p FetchParams) (Content, error)) (FetchParams, error) {
	leave := func(Content) {}
	if p.Enter != nil {
		var err error
		if p.Have, leave, err = p.Enter(ctx); err != nil {
			return p, err
		}
	}
	defer func() { leave(p.Have) }()
	written, err := write(p)
	if err == nil {
		p.Have = written
	}
	return p, err
}

// Backend is one replica's machinery for mirrors: it talks to upstreams, and keeps and reads
// mirrors on this replica's disk. One value implements all of it, because the parts share the disk:
// a fetch writes what Open reads and Export lists. Its methods may be called concurrently, the ones
// that write a mirror for different repositories only.
type Backend interface {
	Upstream
	Pinner
	Storage
	content.Opener
}

// Upstream talks to upstreams. Its methods may be called concurrently, Fetch for different
// repositories only, and Fill within its own rules.
type Upstream interface {
	// Check returns nil if a definition can be used. It makes no request. The error is a *FieldError.
	Check(def Definition) error
	// Enter blocks, fairly, until the definition's host may have one more conversation. The caller
	// calls leave when that is over. The error is the context's, or a *QuietError while the host
	// wants to be left alone.
	Enter(ctx context.Context, def Definition) (leave func(), err error)
	// Fetch lists the upstream's refs and, if any moved, brings the mirror up to them. When it
	// returns, the mirror durably holds the content returned. On an error the mirror holds what it
	// held before. Errors are *UpstreamError, the guard's, or the context's.
	Fetch(ctx context.Context, p FetchParams) (Content, error)
	// Fill makes a partial mirror durably hold the blobs of those ids besides what it holds, which
	// is p.Have. Of an artifact repository ids name artifacts (package artifact), and an artifact that
	// cannot be delivered is an *ArtifactError. Admit is not called: no ref moves. On an error some
	// may have arrived. It returns the errors of Fetch. A back end whose Check refuses partial clones
	// is never asked to fill one.
	//
	// Fill may run beside a Fetch, a Pin or any other write of the same mirror, but not beside another
	// Fill of it. It writes the mirror only between p.Enter and leave, and may enter more than once: a
	// slow download of an artifact must not keep polls waiting.
	Fill(ctx context.Context, p FetchParams, ids []string) (Content, error)
}

// Pinner asks upstreams about refs that the mirror does not know enough of: their digests, where an
// upstream lists names alone, and their signatures, where the definition requires such. Pin may be
// called concurrently, for different repositories only.
type Pinner interface {
	// Pin makes the mirror, which holds p.Have, durably know the targets of the named refs, and the
	// content that they deliver. Every later Fetch checks them. Known refs cost nothing. A name that
	// the upstream does not have is not an error: its ref is gone from the content returned. A name
	// with [DigestPrefix] adds a ref to an OCI repository. An artifact without a good signature is
	// held back, which is not an error either. Admit is not called. It returns the errors of Fetch.
	// Only Helm and OCI repositories have refs to ask about; for others, and while p.Have was verified
	// by another policy than the definition's, Pin returns p.Have.
	Pin(ctx context.Context, p FetchParams, names []string) (Content, error)
}

// Storage keeps the mirrors on this replica's disk, whichever back end fetches and reads them.
// Replicas copy mirrors from one another as files. Its methods may be called concurrently, the ones
// that write a mirror for different mirrors only.
type Storage interface {
	// Load returns what the mirror of that UID holds, after it has made sure that it can be read.
	// ErrNoMirror: there is none, or it was damaged and has been dropped.
	Load(ctx context.Context, uid string) (Content, error)
	// SaveDelivery durably keeps what the refs deliver, as c has it. The rest of the mirror stays
	// as it is.
	SaveDelivery(ctx context.Context, uid string, c Content) error
	// Remove deletes a mirror. Removing one that does not exist is no error.
	Remove(ctx context.Context, uid string) error

	// Export lists the files of a mirror. ErrNoMirror: there is none.
	Export(ctx context.Context, uid string) (generation string, files []File, err error)
	// OpenFile opens one of them. ErrNoMirror: the generation is gone, or never had that file.
	OpenFile(ctx context.Context, uid, generation, name string) (io.ReadCloser, error)
	// Adopt makes the mirror of that UID durably hold what c describes. It opens only the files
	// that the mirror lacks, verifies everything before it uses it, and leaves the mirror as it was
	// on an error.
	Adopt(ctx context.Context, uid string, c Copy, open func(context.Context, File) (io.ReadCloser, error)) (Content, error)
	// Confirm durably records that the mirror equalled the upstream at content's FreshAt and Epoch.
	Confirm(ctx context.Context, uid string, content Content) error

	// Stored lists all mirrors by UID, those included that belong to no repository known here.
	Stored() []Stored
	// Usage returns how full the folder is.
	Usage() Usage
	// Compact makes fewer and smaller files of a mirror where that pays; its content stays.
	// Meanwhile the mirror may be read, fetched into and copied to. At the end Compact calls enter,
	// and then leave: there may be no other writer in between. Where there is nothing to do, it calls
	// neither, and returns a Compaction without packs.
	Compact(ctx context.Context, uid string, enter func(context.Context) (leave func(), err error)) (Compaction, error)
}

// Registry keeps the definitions that all replicas share. All methods may be called concurrently.
type Registry interface {
	// Put makes a definition known to all replicas, unless a newer version of the same UID is known
	// already.
	Put(ctx context.Context, def Definition) error
	// Delete forgets a repository. A definition with a version higher than the given one stays;
	// version 0 deletes any. It returns the definition that was deleted, or false where there was
	// none.
	Delete(ctx context.Context, name string, version int64) (Definition, bool, error)
}

// Logged is an event with its place in the log.
type Logged struct {
	Token string
	Event Event
}

// EventLog carries events between replicas: ordered, bounded, fenced. All methods may be called
// concurrently. Failures of the store behind it match ErrDependency.
type EventLog interface {
	// Append adds an event, and keeps its state as the repository's last. ErrEpochStale: a newer
	// owner exists.
	Append(ctx context.Context, e Event) error
	// States returns the last event of every repository, and the token after which live events
	// follow.
	States(ctx context.Context) ([]Event, string, error)
	// Probe returns nil if the log answers, and has all events after token. ErrResumeExpired: some have
	// been dropped. ErrDependency: it does not answer, or not before ctx is done.
	Probe(ctx context.Context, token string) error
	// Read returns events after token, oldest first. It blocks until there is one, or ctx is done;
	// then it returns none. It returns the errors of Probe.
	Read(ctx context.Context, token string) ([]Logged, error)
}

// Peers are the replicas that share the repositories.
type Peers interface {
	// Members returns the base URLs of the live replicas, in any order. It answers from memory, and
	// may not know of this replica before its first heartbeat.
	Members() []string
}

// Via is how a call came to a replica. Its text goes along with a call that is forwarded.
type Via string

// The ways.
const (
	ViaCaller Via = ""       // from a caller that is not a replica of gitcache
	ViaOwner  Via = "1"      // from a replica that takes this one for the owner of the repository
	ViaHolder Via = "holder" // from a replica that hopes for a mirror here
)

// Replicas reaches other replicas by their names. Its methods may be called concurrently.
type Replicas interface {
	// Refresh has another replica fetch the repository, and returns the repository's problem after
	// that; nil: none. The error matches ErrNoAnswer where the replica cannot be reached, or answers
	// that it is not the owner any more, and ErrNotOwner where there is none.
	Refresh(ctx context.Context, replica string, def Definition, via Via, wait bool) (*Problem, error)
	// FetchBlobs makes the owner's partial mirror hold blobs. ErrNotOwner: that replica is not the
	// owner.
	FetchBlobs(ctx context.Context, replica string, def Definition, ids []string) error
	// Pin has the owner look up refs. ErrNotOwner: that replica is not the owner.
	Pin(ctx context.Context, replica string, def Definition, names []string) error
	// Inspect returns what a replica's mirror of a repository holds. known is the fingerprint of
	// this replica's own mirror; where the two are the same, the answer has no refs and files.
	// ErrNoMirror: there is no mirror over there.
	Inspect(ctx context.Context, replica string, def Definition, known string) (Copy, error)
	// Read opens a file of the mirror that Inspect described. ErrNoMirror: it is gone. Reading
	// fails when the other replica sends nothing for some seconds.
	Read(ctx context.Context, replica string, def Definition, generation, name string) (io.ReadCloser, error)
	// TakeOver notifies a replica that a lease is reserved for it, and returns once it owns the
	// repository.
	TakeOver(ctx context.Context, replica string, def Definition) error
}

// QuietError means that a host asked to be left alone, whichever repository it was asked about. It
// is not a failure of the repository: nothing was sent.
type QuietError struct {
	Host  string
	Until time.Time
}

// Error implements error.
func (e *QuietError) Error() string {
	return fmt.Sprintf("%s asks to be left alone until %s", e.Host, e.Until.UTC().Format(time.RFC3339))
}

// Objects are the objects of repositories outside Git, beside their mirrors. Its methods may be
// called concurrently.
type Objects interface {
	// Copy makes this replica hold what another one holds of a repository.
	Copy(ctx context.Context, replica string, def Definition) error
	// Remove deletes all that a repository has. Removing nothing is no error.
	Remove(ctx context.Context, uid string) error
}

// OwnerTask is the right of the owner to ask an upstream for something besides a fetch.
type OwnerTask struct {
	Definition Definition
	// Guard is called right before any byte goes to the upstream, like the guard of [FetchParams].
	Guard func() error
}

// Stored is a mirror on disk.
type Stored struct {
	UID   string
	Bytes int64
	// ReadAt is when it was last opened for reading; zero: not since the process started.
	ReadAt time.Time
}

// Usage is how full the folder of mirrors is.
type Usage struct {
	Bytes int64
	Limit int64 // zero: there is none
	Packs int   // of all mirrors that are in use
}

// Compaction is the effect on a mirror's files.
type Compaction struct {
	PacksBefore, PacksAfter int
	BytesBefore, BytesAfter int64
	// Full: objects that no ref reaches any more are gone, too.
	Full bool
	Took time.Duration
}

// Named knows which repositories are defined anywhere in the hub.
type Named interface {
	// Named returns their UIDs, those included whose definitions cannot be read here. False: the
	// list may be incomplete now, because the shared store does not answer or has lost its memory.
	Named() (uids map[string]bool, sure bool)
}

// ReplicaURL returns the URL of a replica for display: the replica's name without its signature.
func ReplicaURL(name string) string {
	url, _, _ := strings.Cut(name, "#")
	return url
}
