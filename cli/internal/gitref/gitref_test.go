// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitref_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/leatdev/leat/cli/internal/gitref"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

func TestParse(t *testing.T) {
	t.Parallel()
	commit := strings.Repeat("0a", 20)
	for text, want := range map[string]*typev1.GitRef{
		"":               nil,
		"main":           {Selector: &typev1.GitRef_Branch{Branch: "main"}},
		"0abc123":        {Selector: &typev1.GitRef_Branch{Branch: "0abc123"}},
		"tag:v1":         {Selector: &typev1.GitRef_Tag{Tag: "v1"}},
		"refs/tags/v1":   {Selector: &typev1.GitRef_Name{Name: "refs/tags/v1"}},
		commit:           {Selector: &typev1.GitRef_Commit{Commit: commit}},
		"commit:0abc123": {Selector: &typev1.GitRef_Commit{Commit: "0abc123"}},
	} {
		if diff := cmp.Diff(want, gitref.Parse(text), protocmp.Transform()); diff != "" {
			t.Errorf("Parse(%q) (-want +got):\n%s", text, diff)
		}
	}
}
