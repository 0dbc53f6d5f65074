// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"strings"
	"time"
)

// MaxAuthors bounds the authors that are remembered of one object: the latest ones.
const MaxAuthors = 256

// subjectOfPeople begins the subjects of people, and sourceSubject the subjects of fleet sources
// among authors.
const (
	subjectOfPeople = "user:"
	sourceSubject   = "fleetsource:"
)

// Author changed a part of an object that decides what services run: see Object.changesRelease. The record outlives
// later edits of other parts, which replace Metadata.UpdatedBy.
type Author struct {
	// ObjectUID is the uid of the changed object.
	ObjectUID string
	// Subject is a person, as in Origin, or a fleet source by its uid.
	Subject string
	// Revision is the revision of the author's latest change of the object, and At its time.
	Revision int64
	At       time.Time
}

// Person returns the name of the author, and whether the author is a person.
func (a Author) Person() (string, bool) { return strings.CutPrefix(a.Subject, subjectOfPeople) }

// noteAuthors remembers who has changed what services run. current is nil if next is new.
//
// A fleet source writes what Git holds, whose authors the hub does not know. It also does what people wrote
// into the fleet source, so those count who changed it since it last wrote the object.
func (e *Editor) noteAuthors(ctx context.Context, tx Tx, current, next Object) error {
	if !next.changesRelease(current) {
		return nil
	}
	uid := next.Meta().UID
	note := func(subjects ...string) error {
		authors := make([]Author, len(subjects))
		for i, subject := range subjects {
			authors[i] = Author{ObjectUID: uid, Subject: subject, Revision: tx.Revision(), At: next.Meta().UpdatedAt}
		}
		return tx.PutAuthors(ctx, authors)
	}
	// A new service is held at what it was created with, so nothing of that is rolled out. A new set may be
	// what references of services have waited for.
	isRolledOut := current != nil || next.Key().Kind == KindFleetSource || next.Key().Kind == KindConfigSet
	if source := e.manager.Source; source != (SourceRef{}) {
		subjects := []string{sourceSubject + source.UID}
		if isRolledOut {
			directors, err := e.directors(ctx, tx, uid)
			if err != nil {
				return err
			}
			subjects = append(subjects, directors...)
		}
		return note(subjects...)
	}
	if subject := OriginOf(ctx).Subject; isRolledOut && strings.HasPrefix(subject, subjectOfPeople) {
		return note(subject)
	}
	return nil
}

// directors returns the subjects of the people who changed the fleet source that edits since it last wrote the
// object with that uid.
func (e *Editor) directors(ctx context.Context, tx Tx, uid string) (subjects []string, err error) {
	of, err := tx.Authors(ctx, e.manager.Source.UID)
	if err != nil || len(of) == 0 {
		return nil, err
	}
	own, err := tx.Authors(ctx, uid)
	written := int64(0)
	for _, author := range own {
		if author.Subject == sourceSubject+e.manager.Source.UID {
			written = author.Revision
		}
	}
	for _, author := range of {
		if _, isPerson := author.Person(); isPerson && author.Revision > written {
			subjects = append(subjects, author.Subject)
		}
	}
	return subjects, err
}
