// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"fmt"
	"strings"
	"testing"

	optionsv1 "github.com/leatdev/leat/gen/go/leat/options/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/contract/permission"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// needs are the words of docs/reference/rights.md for what an edit of a field needs.
var needs = map[optionsv1.Edit]string{
	optionsv1.Edit_EDIT_PAUSE:            "`pause services` is enough where nothing else changes",
	optionsv1.Edit_EDIT_CONFIRM:          "`confirm services` is enough where nothing else changes",
	optionsv1.Edit_EDIT_USE_REPOSITORY:   "`use repositories` for each that is newly named, or in the document's project for one that another project shares",
	optionsv1.Edit_EDIT_USE_CONFIG_SET:   "`use configsets` in the project of each that is newly named, or in the document's project for one that another project shares",
	optionsv1.Edit_EDIT_USE_REFERENCE:    "for each new reference `use configbackends` in the document's project, or what `hub://` needs for the set; `cluster://` needs nothing",
	optionsv1.Edit_EDIT_CLUSTER_ADMIN:    "the role `admin` for the cluster",
	optionsv1.Edit_EDIT_HUB_CLUSTERS:     "`update clusters` in the whole hub",
	optionsv1.Edit_EDIT_FOREIGN_CLUSTER:  "for a cluster of another project, `create services` in the service's project",
	optionsv1.Edit_EDIT_PROJECT_SERVICES: "`create`, `update` and `delete` of services in the whole project, at every edit",
	optionsv1.Edit_EDIT_SHARE:            "the right to give the newly shared objects",
	optionsv1.Edit_EDIT_LOOSEN:           "for more than before: the role `admin` for what a limit protects, `create` of what a quota counts",
	optionsv1.Edit_EDIT_ALL_PROJECTS:     "the role `admin` for all projects",
	optionsv1.Edit_EDIT_GIVE:             "everything that the binding gives, at every edit",
	optionsv1.Edit_EDIT_DEFINE:           "everything that the role holds, in the whole hub, at every edit",
	optionsv1.Edit_EDIT_HUB_ADMIN:        "the role `admin` in the whole hub, at every edit",
	optionsv1.Edit_EDIT_BECOME:           "everything that the described people have, at every edit",
	optionsv1.Edit_EDIT_DIRECT:           "everything that the role of the fleet source holds, where it writes, at every edit; of a repository, for each fleet source that reads it, or that reads where an image policy writes its tags",
}

// tableOfFields is the part of docs/reference/rights.md about fields of documents.
func tableOfFields(t *testing.T) string {
	t.Helper()
	var page strings.Builder
	page.WriteString(`
## Fields of documents

To create or change an object, one needs ` + "`create` or `update`" + ` of its kind.
Some fields need more where an edit sets, changes or clears them, by the option ` + "`leat.options.v1.edit`" + ` beside each field; the hub decides by these options.
A row counts for all fields below it.
Every other field of a document is free, and a test fails for a field without the option.

| kind | field | needs |
|---|---|---|
`)
	for _, kind := range catalog.Kinds() {
		field, ok := fleetdoc.Kinds()[string(kind)]
		if !ok {
			t.Fatalf("there is no document of the kind %s", kind)
		}
		for _, edit := range permission.Declared(field.Message()) {
			if edit.Needs == optionsv1.Edit_EDIT_UNSPECIFIED {
				t.Errorf("%s.%s has no option leat.options.v1.edit: declare beside it what an edit of it needs", kind, edit.Path)
				continue
			}
			switch edit.Needs { //nolint:exhaustive // the others have a row
			case optionsv1.Edit_EDIT_FREE, optionsv1.Edit_EDIT_SERVER:
				continue
			case optionsv1.Edit_EDIT_PAUSE, optionsv1.Edit_EDIT_CONFIRM, optionsv1.Edit_EDIT_FOREIGN_CLUSTER:
				if kind != catalog.KindService {
					continue // these are about services of their own
				}
			}
			words, ok := needs[edit.Needs]
			if !ok {
				t.Fatalf("no words for %s", edit.Needs)
			}
			fmt.Fprintf(&page, "| %s | `%s` | %s |\n", kind, asWritten(edit.Path), words)
		}
	}
	return page.String()
}

// asWritten returns the path of a field as people write it in documents.
func asWritten(path string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(path, "_") {
		if b.Len() > 0 {
			part = strings.ToUpper(part[:1]) + part[1:]
		}
		b.WriteString(part)
	}
	return b.String()
}
