// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleetsync keeps the catalog equal to fleet sources: folders of repositories that hold
// documents.
//
// One replica of the hub leads and reads all fleet sources; its edits are fenced by its term. A
// look resolves the source, reads its documents, applies the ones that it may and removes what the
// source manages and no document names any more. It promises:
//
//   - A source that cannot be read changes nothing. Neither do documents that cannot be read, apart from
//     holding back all removals of their commit: they may be the missing ones.
//   - Documents are applied in transactions of up to catalog.MaxDocuments, in an order in which an object
//     follows the ones that it names. A document that is refused does not keep others from being applied.
//   - An object has one manager, which the catalog stores. A source never changes an object of another one,
//     nor one that was there before and differs, unless it adopts.
//   - More removals than the guard allows wait until a person confirms exactly them. A source never removes
//     itself, nor the repository that it reads.
//   - A look that finds what the last one left writes nothing.
//
// The package decides nothing about rights: the Guard of each source does. It does not parse
// documents: the Parser does. The memory of a leader is lost with it, and a new one reads
// everything again.
package fleetsync

import (
	"context"
	"io"
	"time"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Bounds of the content of one source. Past them nothing of a commit is applied.
const (
	// MaxFiles bounds the files of documents, and MaxFileBytes and MaxBytes what they hold.
	MaxFiles     = 10_000
	MaxFileBytes = 1 << 20
	MaxBytes     = 16 << 20
	// MaxDocuments bounds the documents, and maxContent all files of the folder.
	MaxDocuments = 10_000
	maxContent   = 256 << 20
	// maxMessage bounds the kept part of an error.
	maxMessage = 512
)

// Action is the action of a look for one document.
type Action string

// The actions.
const (
	ActionUnchanged  Action = "unchanged"
	ActionCreated    Action = "created"
	ActionConfigured Action = "configured"
	ActionRemoved    Action = "removed"
	// ActionHeld is a removal that waits, and ActionKept one that is never made.
	ActionHeld Action = "held"
	ActionKept Action = "kept"
	// ActionConflict is a document of an object with another manager.
	ActionConflict Action = "conflict"
	ActionFailed   Action = "failed"
)

// Document is the outcome of one document. Its JSON is its stored form.
type Document struct {
	// Position is the file, and the line where the document begins; empty if the document is gone.
	Position string       `json:"position,omitempty"`
	Kind     catalog.Kind `json:"kind,omitempty"`
	Name     string       `json:"name,omitempty"`
	Action   Action       `json:"action"`
	// Message describes the problem; empty: none.
	Message string `json:"message,omitempty"`
}

// State is the outcome of a source's latest look. Its JSON is its stored form.
type State struct {
	Commit      string    `json:"commit,omitempty"`
	LookedAt    time.Time `json:"lookedAt,omitzero"`
	SucceededAt time.Time `json:"succeededAt,omitzero"`
	// Problem is the problem; nil: none.
	Problem   *catalog.Problem `json:"problem,omitempty"`
	Documents int              `json:"documents,omitempty"`
	Managed   int              `json:"managed,omitempty"`
	Failed    int              `json:"failed,omitempty"`
	Held      int              `json:"held,omitempty"`
	// HeldDigest identifies the held removals that a person may confirm.
	HeldDigest string `json:"heldDigest,omitempty"`
	// Pending counts what a dry run would do.
	Pending int `json:"pending,omitempty"`
	// Asked is the Order's that the look obeyed.
	Asked int64 `json:"asked,omitempty"`
}

// Order holds people's requests to a source.
type Order struct {
	// Asked counts the syncs.
	Asked int64
	// Confirmed identifies removals that a person agreed to; empty: none.
	Confirmed string
}

// Store keeps states and orders; sqlstore.FleetSources implements it. Its methods may be called
// concurrently. Errors match catalog.ErrUnavailable if the database does not answer, and errors of
// the methods with a term match election.ErrDeposed. Every write in a term counts as a beat.
type Store interface {
	// Orders returns what people asked of the sources, by uid.
	Orders(ctx context.Context) (map[string]Order, error)
	// Save writes what a look found. A source that is gone is left out. Nil documents keep the stored
	// ones.
	Save(ctx context.Context, term int64, uid string, state State, documents []Document) error
	// Fenced returns the catalog for the edits of the leader of that term. After the term every edit
	// fails with election.ErrDeposed, and stores nothing.
	Fenced(term int64) catalog.Editable
}

// States is the port by which people read the outcome of looks, and request them;
// sqlstore.FleetSources implements it. Errors match catalog.ErrUnavailable if the database does not
// answer.
type States interface {
	// States returns the states of sources, by uid. Sources without a look are left out.
	States(ctx context.Context, uids []string) (map[string]State, error)
	// Documents returns what became of each document at the latest look.
	Documents(ctx context.Context, uid string) ([]Document, error)
	// Ask requests a look at the source now, and returns the Asked of the look's state, or more.
	Ask(ctx context.Context, uid string) (asked int64, err error)
	// Confirm agrees to the removals with that digest, and requests a look at the source now.
	Confirm(ctx context.Context, uid, digest string) error
}

// Fleet is this replica's view of the catalog; fleet.Sources implements it. It is safe for concurrent
// use.
type Fleet interface {
	// FleetSources returns all fleet sources by name.
	FleetSources() []*catalog.FleetSource
	// Managed returns the objects that the fleet source manages, kind after kind.
	Managed(source catalog.SourceRef) []catalog.Object
	// Version returns the resource version of an object, and zero for one that does not exist.
	Version(key catalog.Key) int64
	// Refresh takes over what the store holds.
	Refresh(ctx context.Context) error
}

// Upstream resolves sources; gitsource.Source implements it.
type Upstream interface {
	resolve.Upstream
	// Push makes changed repositories known where they are mirrored. It does not wait.
	Push()
}

// Bundles opens bundles; bundles.Cache implements it.
type Bundles interface {
	Open(ctx context.Context, bundle plan.Bundle) (*cas.Blob, error)
}

// Item is one document of a file, or a problem of the file.
type Item struct {
	// Position is the file, with line and column as far as known.
	Position string
	// Object is nil if the document is not valid; Problem has the reason.
	Object  catalog.Object
	Problem string
	// Locate returns the position and the spelling of the field that an error of the catalog is about;
	// both are empty for an error that is about no field. Nil with a nil Object.
	Locate func(err error) (position, message string)
}

// Parser reads documents.
type Parser interface {
	// Parse reads the documents of a file in the folder of a source. It takes what the file holds in
	// nodes from the budget, which all files of a commit share, and reports a file for which not enough
	// is left as a problem.
	Parse(source *catalog.FleetSource, file string, content io.Reader, budget *int) []Item
}

// Authority decides about the edits of sources. It is safe for concurrent use.
type Authority interface {
	// Guard returns the guard of the edits of a source, as of now.
	Guard(source *catalog.FleetSource) catalog.Guard
}
