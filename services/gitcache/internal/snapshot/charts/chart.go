// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/leatdev/leat/services/gitcache/internal/chartdep"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
)

const chartsFolder = "charts"

// chart is a chart whose dependencies are resolved.
type chart struct {
	at     string // its folder in the repository that is bundled, or where it is packed
	origin string // its folder in the repository of its place
	place  *leaves.Place
	files  []leaves.Leaf // rising by path; their paths begin with at
	above  *chart        // the chart that it is packed for; nil for one that the source selects
}

// maxCharts is the most charts of one bundle that are read. Each costs reading two files.
const maxCharts = 1000

// chartsIn returns the charts among the files that count: the one at path and, unless it is alone,
// those in other folders. One in the folder charts of another is that one's own affair.
func chartsIn(files []leaves.Leaf, path string, isAlone bool) ([]*chart, error) {
	has := map[string]bool{} // folders of charts
	var folders []string
	for _, l := range files {
		folder, name := splitPath(l.Path)
		if name == chartdep.ChartFile && l.IsFile() {
			has[folder] = true
			folders = append(folders, folder)
		}
	}
	var charts []*chart
	for _, folder := range folders {
		if isAlone && folder != path || isPackedIn(has, folder) {
			continue
		}
		if len(charts) == maxCharts {
			return nil, &leaves.UnsupportedError{Path: folder, Reason: fmt.Sprintf(
				"is a chart too many: a bundle may have %d of them. Name folders further down, or exclude some", maxCharts)}
		}
		one := &chart{at: folder, files: below(files, folder)}
		one.place = one.text(chartdep.ChartFile).Place
		one.origin = strings.TrimSuffix(strings.TrimPrefix(folder+"/", one.place.Prefix), "/")
		charts = append(charts, one)
	}
	return charts, nil
}

// text returns the chart's own file of that name; the zero Leaf if there is none.
func (c *chart) text(name string) leaves.Leaf {
	want := strings.TrimPrefix(c.at+"/"+name, "/")
	i, ok := slices.BinarySearchFunc(
		c.files, want, func(l leaves.Leaf, want string) int { return strings.Compare(l.Path, want) },
	)
	if !ok || !c.files[i].IsFile() {
		return leaves.Leaf{}
	}
	return c.files[i]
}

// textNames are the files that list a chart's dependencies.
var textNames = []string{chartdep.ChartFile, chartdep.LockFile, chartdep.RequirementsFile, chartdep.RequirementsLock}

func (c *chart) texts() []leaves.Leaf {
	var texts []leaves.Leaf
	for _, name := range textNames {
		if l := c.text(name); l.Place != nil {
			texts = append(texts, l)
		}
	}
	return texts
}

// shown returns the chart's folder for messages: where a person finds it in the repository.
func (c *chart) shown() string {
	if c.above == nil {
		return c.at
	}
	return strings.TrimPrefix(c.place.ShownPrefix()+c.origin, "/")
}

// isBuiltFrom reports whether a folder of the chart's repository holds the chart, or one that it is
// packed for.
func (c *chart) isBuiltFrom(folder string) bool {
	for one := c; one != nil; one = one.above {
		if content.Inside(one.origin, folder) {
			return true
		}
	}
	return false
}

// below returns the leaves in a folder. All rise by path.
func below(all []leaves.Leaf, folder string) []leaves.Leaf {
	if folder == "" {
		return all
	}
	begin, _ := slices.BinarySearchFunc(
		all, folder+"/", func(l leaves.Leaf, prefix string) int { return strings.Compare(l.Path, prefix) },
	)
	end := begin
	for end < len(all) && strings.HasPrefix(all[end].Path, folder+"/") {
		end++
	}
	return all[begin:end]
}

func splitPath(of string) (folder, name string) {
	folder, name = path.Split(of)
	return strings.TrimSuffix(folder, "/"), name
}

// isPackedIn reports whether a folder lies in the folder charts of a chart.
func isPackedIn(has map[string]bool, folder string) bool {
	for folder != "" {
		above, name := splitPath(folder)
		if name == chartsFolder && has[above] {
			return true
		}
		folder = above
	}
	return false
}
