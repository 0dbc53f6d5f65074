// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/objectname"
)

const (
	// maxShownChanges is how many changed fields a row of the audit log shows, and maxShownValue how
	// many characters of a value.
	maxShownChanges = 2
	maxShownValue   = 24
)

func auditRows(style Style) *grid {
	return newGrid(style, "TIME", "WHO", "VERB", "OBJECT", "OUTCOME", "REASON", "CHANGES")
}

// AuditRecords prints records of changes.
func AuditRecords(w io.Writer, format Format, style Style, records []*fleetv1.AuditRecord) error {
	return items(w, format, auditRows(style), records, auditCells)
}

// AuditLog prints records as they come: as rows, as one JSON object a line, or
// as YAML documents.
type AuditLog struct {
	w      io.Writer
	format Format
	rows   *grid
}

// NewAuditLog returns a log that has printed nothing.
func NewAuditLog(w io.Writer, format Format, style Style) *AuditLog {
	return &AuditLog{w: w, format: format, rows: auditRows(style)}
}

// Write prints further records.
func (l *AuditLog) Write(records []*fleetv1.AuditRecord) error {
	switch l.format {
	case JSON:
		for _, record := range records {
			if err := document.WriteJSONItem(l.w, record); err != nil {
				return err
			}
		}
		return nil
	case YAML:
		for _, record := range records {
			if err := document.WriteYAMLItem(l.w, record); err != nil {
				return err
			}
		}
		return nil
	default:
	}
	if len(records) == 0 {
		return nil
	}
	return items(l.w, Table, l.rows, records, auditCells)
}

func auditCells(r *fleetv1.AuditRecord) []cell {
	object := strings.ToLower(r.GetKind())
	if r.GetName() != "" {
		object += "/" + auditName(r)
	}
	return []cell{
		plain(r.GetTime().AsTime().Local().Format(time.DateTime)), plain(strings.TrimPrefix(r.GetSubject(), "user:")), plain(r.GetVerb()), plain(object),
		auditOutcome(r), plain(r.GetReason()),
		{text: auditChanges(r)},
	}
}

// auditName returns the name of a record's object, and of a service also the cluster.
func auditName(r *fleetv1.AuditRecord) string {
	service, err := objectname.Parse("name", r.GetName(), objectname.Default)
	if r.GetKind() != "Service" || err != nil {
		return r.GetName()
	}
	cluster, err := objectname.Parse("cluster", r.GetCluster(), objectname.Default)
	if err != nil {
		return r.GetName()
	}
	return objectname.Display(objectname.ServicePath(service, cluster))
}

func auditOutcome(r *fleetv1.AuditRecord) cell {
	if r.GetOutcome() == "OK" {
		return cell{"ok", green}
	}
	text := r.GetOutcome()
	if r.GetCount() > 0 {
		text = fmt.Sprintf("%s (%d more)", text, r.GetCount())
	}
	return cell{text, red}
}

// auditChanges summarises what changed. A record of a new object, or of a deleted one, has all its
// fields, of which a row shows nothing.
func auditChanges(r *fleetv1.AuditRecord) string {
	if verb := r.GetVerb(); verb == "create" || verb == "delete" {
		return ""
	}
	var parts []string
	for i, field := range r.GetChanges() {
		if i == maxShownChanges {
			break
		}
		parts = append(parts, auditField(field))
	}
	if more := len(r.GetChanges()) + int(r.GetChangesOmitted()) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, ", ")
}

func auditField(f *fleetv1.AuditFieldChange) string {
	if effect := f.GetSecretEffect(); effect != fleetv1.AuditSecretEffect_AUDIT_SECRET_EFFECT_UNSPECIFIED {
		return f.GetPath() + ": secret " + document.EnumName(effect)
	}
	switch {
	case f.Old == nil:
		return f.GetPath() + ": " + brief(f.GetNew())
	case f.New == nil:
		return f.GetPath() + ": removed"
	}
	return f.GetPath() + ": " + brief(f.GetOld()) + " → " + brief(f.GetNew())
}

// brief returns the beginning of a value.
func brief(value string) string {
	if utf8.RuneCountInString(value) <= maxShownValue {
		return value
	}
	return string([]rune(value)[:maxShownValue]) + "…"
}
