// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/objectname"
)

// ManagedBy is the annotation by which an object names the fleet source that manages it. The hub sets
// it: what a caller says of it is ignored.
const ManagedBy = "leat.dev/managed-by"

const managerPrefix = "fleetsource/"

// ManagerText returns what ManagedBy holds for a fleet source of that path.
func ManagerText(source string) string { return managerPrefix + objectname.Display(source) }

// ManagerOf returns the path of the fleet source that manages the object, or "" if none does.
func ManagerOf(object Object) string {
	reference, ok := strings.CutPrefix(object.Meta().Annotations[ManagedBy], managerPrefix)
	if !ok {
		return ""
	}
	path, err := objectname.Parse(ManagedBy, reference, objectname.Default)
	if err != nil {
		return ""
	}
	return path
}

// ManagedError means that a fleet source manages the object, so others may not change it.
type ManagedError struct {
	Key Key
	// Source is the path of the fleet source.
	Source string
}

// Error implements error.
func (e *ManagedError) Error() string {
	return fmt.Sprintf("%s is managed by %s", e.Key, ManagerText(e.Source))
}

// DiffersError means that a fleet source may not take an object over, because the object was there
// before and differs from its document.
type DiffersError struct{ Key Key }

// Error implements error.
func (e *DiffersError) Error() string {
	return fmt.Sprintf("%s exists already, nobody manages it, and it differs from the document", e.Key)
}

// Manager is the fleet source in whose name an Editor works.
type Manager struct {
	// Source is the path of the fleet source.
	Source string
	// Version is the resource version of the fleet source. Its edits fail with ErrManagerChanged if
	// another one is stored.
	Version int64
	// Adopt takes over objects that nobody manages even if they differ.
	Adopt bool
}

// ErrManagerChanged means that the fleet source in whose name an edit was made has been changed or deleted.
var ErrManagerChanged = errors.New("the fleet source has changed")

// ManagedAs returns an Editor whose objects the fleet source manages from then on. Its further errors
// are *ManagedError, *DiffersError and ErrManagerChanged.
func (e *Editor) ManagedAs(manager Manager) *Editor {
	next := *e
	next.manager = manager
	return &next
}

// WithPublic returns an Editor that knows by isSame whether two objects differ in nothing but secrets.
// People may give managed objects other secrets, which are not in Git.
func (e *Editor) WithPublic(isSame func(a, b Object) bool) *Editor {
	next := *e
	next.samePublic = isSame
	return &next
}

// checkManager returns an error unless the fleet source that edits, if one does, is as it was.
func (e *Editor) checkManager(ctx context.Context, tx Tx) error {
	if e.manager.Source == "" {
		return nil
	}
	source, err := tx.Get(ctx, Key{KindFleetSource, e.manager.Source})
	if errors.Is(err, ErrNotFound) || err == nil && source.Meta().ResourceVersion != e.manager.Version {
		return ErrManagerChanged
	}
	return err
}

// setManager makes meta name the fleet source of that path; "" makes it name none. The annotations of
// a clone are those of its original, so they are copied.
func setManager(meta *Metadata, source string) {
	_, isSet := meta.Annotations[ManagedBy]
	if source == "" && !isSet {
		return
	}
	annotations := maps.Clone(meta.Annotations)
	if source == "" {
		delete(annotations, ManagedBy)
	} else {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[ManagedBy] = ManagerText(source)
	}
	if meta.Annotations = annotations; len(annotations) == 0 {
		meta.Annotations = nil
	}
}

// settleManager returns the path of the fleet source that manages the object after an update, which
// changes nothing else if isSame.
func (e *Editor) settleManager(ctx context.Context, tx Tx, current, next Object, isSame bool) (string, error) {
	source, isManaged, err := managing(ctx, tx, current)
	if err != nil {
		return "", err
	}
	kept := ""
	if isManaged {
		kept = source.Name
	}
	switch own := e.manager.Source; {
	case own != "" && kept != "" && kept != own:
		return "", &ManagedError{Key: current.Key(), Source: kept}
	case own != "" && kept == "" && !isSame && !e.manager.Adopt && current.Meta().ResourceVersion != 0: // zero: the project default, as nobody wrote it
		return "", &DiffersError{Key: current.Key()}
	case own != "":
		return own, nil
	case isSame || source == nil || e.mayEditManaged(source, current, next):
		return kept, nil
	}
	return "", &ManagedError{Key: current.Key(), Source: kept}
}

// managing returns the fleet source that manages an object; isManaged is false, and the source nil, if
// none does. One that was deleted manages nothing.
func managing(ctx context.Context, tx Tx, object Object) (source *FleetSource, isManaged bool, err error) {
	path := ManagerOf(object)
	if path == "" {
		return nil, false, nil
	}
	found, err := tx.Get(ctx, Key{KindFleetSource, path})
	if errors.Is(err, ErrNotFound) {
		return nil, false, nil
	}
	source, isManaged = found.(*FleetSource)
	return source, isManaged, err
}

// mayEditManaged reports whether people may make a change of an object that the source manages: while
// the source does nothing, of the source itself, of secrets, and to confirm a prune.
func (e *Editor) mayEditManaged(source *FleetSource, current, next Object) bool {
	if !source.Spec.IsActive() || current.Key() == source.Key() {
		return true
	}
	if e.samePublic != nil && e.samePublic(current, next) {
		return true
	}
	_, isService := current.(*Service)
	return isService && slices.Equal(VerbsOf(current, next), []string{VerbConfirm})
}

// mayDeleteManaged returns an error if a fleet source manages the object, and the Editor works for somebody
// else.
func (e *Editor) mayDeleteManaged(ctx context.Context, tx Tx, current Object) error {
	source, _, err := managing(ctx, tx, current)
	switch own := e.manager.Source; {
	case err != nil:
		return err
	case own != "" && (source == nil || source.Name != own):
		return &DiffersError{Key: current.Key()}
	case own != "", source == nil, !source.Spec.IsActive(), current.Key() == source.Key():
		return nil
	}
	return &ManagedError{Key: current.Key(), Source: source.Name}
}

// keepConfirmation keeps the confirmation of a prune, which people give and Git does not hold.
func keepConfirmation(current, next Object) {
	from, ok := current.(*Service)
	to, ok2 := next.(*Service)
	if !ok || !ok2 || from.Spec.Wanted().PruneConfirmation == "" || to.Spec.Wanted().PruneConfirmation != "" {
		return
	}
	options := to.Spec.Wanted()
	options.PruneConfirmation = from.Spec.Wanted().PruneConfirmation
	to.Spec.Options = &options
}
