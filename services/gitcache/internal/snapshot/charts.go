// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/internal/bundle"
	"github.com/leatdev/leat/services/gitcache/internal/chartdep"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/selection"
)

const (
	// maxCharts is the most charts of one bundle that are looked at. Each costs reading two files.
	maxCharts = 1000
	// maxPacked is how many dependencies are packed into one bundle, and maxPackedDepth how deep those
	// in the same repository may have dependencies there, too.
	maxPacked      = 256
	maxPackedDepth = 5
	// maxChartTexts bounds the bytes of the files that are read to find out what charts lack. Reading
	// YAML takes a second for some ten megabytes.
	maxChartTexts = 16 << 20
	// findAtOnce is how many dependencies one build looks for at the same time.
	findAtOnce = 8

	chartsFolder = "charts"
)

// Charts finds the artifacts that charts depend on. It may be used concurrently.
type Charts interface {
	// Find returns which artifact a dependency is now, and waits a bounded time where that has to be
	// asked. The artifact need not be mirrored yet. Errors are *chartdep.UnavailableError,
	// *chartdep.FetchError and the context's.
	Find(ctx context.Context, n chartdep.Need) (chartdep.Artifact, error)
	// Discard has the damaged mirror of a repository of charts fetched again.
	Discard(uid string)
}

// chartState is what one build knows of the dependencies of charts. The build carries it from one try
// to the next, so that one dependency is one artifact all the time.
type chartState struct {
	found map[chartdep.Need]chartdep.Artifact // by chartdep.Need.Key
}

// wantedArtifact is a dependency whose artifact is not mirrored here.
type wantedArtifact struct {
	need     chartdep.Need
	artifact chartdep.Artifact
}

// dependencies are what the bundle of a selection holds beside the content that its outline covers.
// They are remembered by the outline; see [Builder.completed].
type dependencies struct {
	folders []string        // of the repository that is bundled; rising
	needs   []chartdep.Need // each once, with a file that names it
}

// weight returns about how many bytes the dependencies take in memory.
func (d dependencies) weight() int {
	sum := 0
	for _, folder := range d.folders {
		sum += len(folder)
	}
	for _, n := range d.needs {
		sum += len(n.File) + len(n.Name) + len(n.Version) + len(n.Repository) // the rest is shared
	}
	return sum
}

func (d dependencies) isEmpty() bool { return len(d.folders) == 0 && len(d.needs) == 0 }

// completed names a selection together with what its charts depend on: the outline, the trees of the
// folders, and the artifacts that the needs are now. A version that was published again therefore
// makes another bundle of the same commit, on every replica that has heard of it.
func completed(outline treeKey, trees map[string]string, found map[chartdep.Need]chartdep.Artifact, d dependencies) treeKey {
	h := selection.NewHash("completed")
	h.Add(outline.id)
	for _, folder := range d.folders {
		h.Add("folder", folder, trees[folder])
	}
	for _, n := range d.needs {
		a := found[n.Key()]
		h.Add("chart", n.Name, n.Version, n.Repository, a.UID, a.ID)
	}
	return treeKey{uid: outline.uid, id: h.Sum()}
}

// completedNow returns the key for what the dependencies are now.
func (b *Builder) completedNow(ctx context.Context, f Folder, outline treeKey, d dependencies) (treeKey, error) {
	found, err := b.find(ctx, d.needs)
	if err != nil {
		return treeKey{}, err
	}
	trees := map[string]string{}
	if len(d.folders) > 0 {
		r, err := b.params.Mirrors.Open(ctx, f.UID)
		if err != nil {
			return treeKey{}, err
		}
		defer func() { _ = r.Close() }()
		for _, folder := range d.folders {
			tree, err := r.Tree(ctx, f.Commit, folder)
			if err != nil && !errors.Is(err, content.ErrPathNotFound) { // which the build reports, with the chart's name
				return treeKey{}, err
			}
			trees[folder] = tree
		}
	}
	return completed(outline, trees, found, d), nil
}

// find returns the artifacts that needs are, by their keys.
func (b *Builder) find(ctx context.Context, needs []chartdep.Need) (map[chartdep.Need]chartdep.Artifact, error) {
	artifacts := make([]chartdep.Artifact, len(needs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(findAtOnce)
	for i, n := range needs {
		group.Go(func() (err error) {
			artifacts[i], err = b.params.Charts.Find(ctx, n)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	found := map[chartdep.Need]chartdep.Artifact{}
	for i, n := range needs {
		found[n.Key()] = artifacts[i]
	}
	return found, nil
}

// fetchArtifacts fetches artifacts, one after the other.
func (b *Builder) fetchArtifacts(ctx context.Context, wanted []wantedArtifact) error {
	for _, w := range wanted {
		if err := b.fetchBlobs(ctx, map[string][]string{w.artifact.UID: {w.artifact.ID}}); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return w.need.Failed(err)
		}
	}
	return nil
}

// completer packs what the charts of one bundle lack into their folders charts.
type completer struct {
	builder *Builder
	mirrors *mirrorReader
	planner *planner
	folder  Folder
	state   *chartState

	added     []leaf
	packed    int
	textBytes int                             // of files that were read
	trees     map[string]string               // of folders of the repository that is bundled
	needs     map[chartdep.Need]chartdep.Need // by key, with the first file that names it
	absent    absentError
}

// chart is a chart whose dependencies are looked at.
type chart struct {
	at     string // its folder in the repository that is bundled, or where it is packed
	origin string // its folder in the repository of its place
	place  *place
	files  []leaf // rising by path; their paths begin with at
	above  *chart // the chart that it is packed for; nil for one that the source selects
}

// completeCharts adds the dependencies that selected charts lack, and returns what they are. What has
// to be found or fetched first is an *absentError, with all that could be seen.
//
// The chart at the source's path counts. Those in other folders count if the repository's definition
// lists repositories for dependencies: a source may select any number of charts that nothing renders.
func (b *Builder) completeCharts(ctx context.Context, mirrors *mirrorReader, p *planner, f Folder, state *chartState) (*completer, error) {
	c := &completer{
		builder: b, mirrors: mirrors, planner: p, folder: f, state: state, trees: map[string]string{}, needs: map[chartdep.Need]chartdep.Need{},
	}
	if !f.CompletesCharts {
		return c, nil
	}
	charts, err := c.charts()
	if err != nil {
		return c, err
	}
	if err := c.checkTexts(ctx, charts); err != nil {
		return c, err
	}
	for _, one := range charts {
		if err := c.complete(ctx, one, 0); err != nil {
			return c, err
		}
	}
	if c.absent.isSet() {
		return c, &c.absent
	}
	if len(c.added) > 0 {
		p.leaves = append(p.leaves, c.added...)
		slices.SortFunc(p.leaves, func(x, y leaf) int { return strings.Compare(x.name, y.name) })
	}
	return c, nil
}

// dependencies returns what was packed, or would have been but for an error. A nil completer has packed
// nothing.
func (c *completer) dependencies() dependencies {
	if c == nil {
		return dependencies{}
	}
	return dependencies{
		folders: slices.Sorted(maps.Keys(c.trees)),
		needs: slices.SortedFunc(maps.Values(c.needs), func(x, y chartdep.Need) int {
			return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.Version, y.Version), strings.Compare(x.Repository, y.Repository))
		}),
	}
}

// charts returns the charts that count. One in the folder charts of another is that one's own affair.
func (c *completer) charts() ([]*chart, error) {
	files := c.planner.leaves
	has := map[string]bool{} // folders of charts
	var folders []string
	for _, l := range files {
		folder, name := splitPath(l.path)
		if name == chartdep.ChartFile && l.isFile() {
			has[folder] = true
			folders = append(folders, folder)
		}
	}
	var charts []*chart
	for _, folder := range folders {
		if folder != c.folder.Selection.Path() && c.folder.ChartRepositories == "" || isPackedIn(has, folder) {
			continue
		}
		if len(charts) == maxCharts {
			return nil, &UnsupportedError{Path: folder, Reason: fmt.Sprintf("is a chart too many: a bundle may have %d of them. "+
				"Name folders further down, or exclude some", maxCharts)}
		}
		one := &chart{at: folder, files: below(files, folder)}
		one.place = one.text(chartdep.ChartFile).place
		one.origin = strings.TrimSuffix(strings.TrimPrefix(folder+"/", one.place.prefix), "/")
		charts = append(charts, one)
	}
	return charts, nil
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

func splitPath(of string) (folder, name string) {
	folder, name = path.Split(of)
	return strings.TrimSuffix(folder, "/"), name
}

// below returns the leaves in a folder. The leaves rise by path.
func below(leaves []leaf, folder string) []leaf {
	if folder == "" {
		return leaves
	}
	begin, _ := slices.BinarySearchFunc(leaves, folder+"/", func(l leaf, prefix string) int { return strings.Compare(l.path, prefix) })
	end := begin
	for end < len(leaves) && strings.HasPrefix(leaves[end].path, folder+"/") {
		end++
	}
	return leaves[begin:end]
}

func (l leaf) isFile() bool { return l.kind == content.KindFile || l.kind == content.KindExecutable }

// text returns the chart's own file of that name; the zero leaf if there is none.
func (c *chart) text(name string) leaf {
	want := strings.TrimPrefix(c.at+"/"+name, "/")
	i, ok := slices.BinarySearchFunc(c.files, want, func(l leaf, want string) int { return strings.Compare(l.path, want) })
	if !ok || !c.files[i].isFile() {
		return leaf{}
	}
	return c.files[i]
}

// textNames are the files that say what a chart depends on.
var textNames = []string{chartdep.ChartFile, chartdep.LockFile, chartdep.RequirementsFile, chartdep.RequirementsLock}

func (c *chart) texts() []leaf {
	var texts []leaf
	for _, name := range textNames {
		if l := c.text(name); l.place != nil {
			texts = append(texts, l)
		}
	}
	return texts
}

// checkTexts returns an *absentError where a partial mirror lacks files that have to be read.
func (c *completer) checkTexts(ctx context.Context, charts []*chart) error {
	var texts []leaf
	for _, one := range charts {
		texts = append(texts, one.texts()...)
	}
	return checkBlobs(ctx, c.mirrors, texts)
}

// read reads the chart's files. ok is false for files that Helm could not read: what renders the chart
// reports that.
func (c *completer) read(ctx context.Context, one *chart) (read chartdep.Chart, ok bool, err error) {
	texts := chartdep.Texts{}
	for _, l := range one.texts() {
		text, err := c.readLeaf(ctx, l)
		if err != nil {
			return read, false, err
		}
		_, name := splitPath(l.path)
		texts[name] = text
	}
	read, err = chartdep.Read(texts)
	if errors.Is(err, chartdep.ErrUnreadable) {
		return read, false, nil
	}
	return read, err == nil, err
}

// readLeaf returns the text of a file, as much of it as chartdep needs to refuse one that is too long.
func (c *completer) readLeaf(ctx context.Context, l leaf) ([]byte, error) {
	r, err := c.mirrors.open(ctx, l.uid)
	if err != nil {
		return nil, err
	}
	file, err := r.Blob(ctx, l.id)
	if err != nil {
		return nil, c.builder.blame(l.place, fmt.Errorf("read %q: %w", l.path, err))
	}
	text, _, err := readText(file)
	if err != nil {
		return nil, c.builder.blame(l.place, fmt.Errorf("read %q: %w", l.path, err))
	}
	if c.textBytes += len(text); c.textBytes > maxChartTexts {
		return nil, &chartdep.UnsupportedError{File: l.path, Said: "It comes after too many charts with long files. Select fewer charts, or shorten Chart.yaml."}
	}
	return text, nil
}

// packedNames returns whether the chart's folder charts holds a chart of a name: a folder whose
// Chart.yaml says so, or an archive.
func (c *completer) packedNames(ctx context.Context, one *chart) (func(name string) bool, error) {
	in := strings.TrimPrefix(one.at+"/"+chartsFolder, "/")
	names := map[string]bool{}
	var archives []string
	for _, l := range below(one.files, in) {
		inside := strings.TrimPrefix(l.path, in+"/")
		first, rest, isBelow := strings.Cut(inside, "/")
		switch {
		case !isBelow && path.Ext(inside) == ".tgz":
			archives = append(archives, inside)
		case rest == chartdep.ChartFile && l.isFile():
			sub := &chart{at: in + "/" + first, files: below(one.files, in+"/"+first), place: l.place}
			if err := checkBlobs(ctx, c.mirrors, sub.texts()); err != nil {
				return nil, err
			}
			read, ok, err := c.read(ctx, sub)
			if err != nil {
				return nil, err
			}
			if ok {
				names[read.Name] = true
			}
		}
	}
	return func(name string) bool {
		return names[name] || slices.ContainsFunc(archives, func(file string) bool { return chartdep.IsPackedAs(file, name) })
	}, nil
}

// complete packs what a chart lacks.
func (c *completer) complete(ctx context.Context, one *chart, depth int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	read, ok, err := c.read(ctx, one)
	if err != nil || !ok || len(read.Dependencies) == 0 {
		return err
	}
	packed, err := c.packedNames(ctx, one)
	if err != nil {
		return err
	}
	wanted, err := read.Missing(one.shown(), packed)
	if err != nil {
		return err
	}
	for _, w := range wanted {
		if c.packed++; c.packed > maxPacked {
			return &chartdep.UnsupportedError{File: read.DeclaredIn(one.shown()), Said: fmt.Sprintf(
				"Its dependency %s is one too many: %d are packed into one bundle. Select fewer charts.", w.Name, maxPacked)}
		}
		need := chartdep.Need{
			Root: c.folder.UID, Allowed: c.folder.ChartRepositories, File: read.DeclaredIn(one.shown()),
			Name: w.Name, Version: w.Version, Repository: w.Repository,
		}
		if w.Local != "" || strings.HasPrefix(w.Repository, "file:") {
			err = c.packFolder(ctx, one, w, need, depth)
		} else {
			err = c.packArtifact(ctx, one, w, need)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// shown returns the chart's folder for messages: where a person finds it in the repository.
func (c *chart) shown() string {
	if c.above == nil {
		return c.at
	}
	return strings.TrimPrefix(c.place.shownPrefix()+c.origin, "/")
}

// packArtifact packs a dependency from a repository of charts.
func (c *completer) packArtifact(ctx context.Context, one *chart, w chartdep.Wanted, need chartdep.Need) error {
	if c.builder.params.Charts == nil {
		return need.Unavailable("Dependencies from other repositories are not fetched here. Run helm dependency build, which packs them into charts.")
	}
	if _, ok := c.needs[need.Key()]; !ok {
		c.needs[need.Key()] = need
	}
	found, ok := c.state.found[need.Key()]
	if !ok {
		c.absent.needs = append(c.absent.needs, need)
		return nil
	}
	r, err := c.mirrors.open(ctx, found.UID)
	var tree string
	if err == nil {
		tree, err = r.Tree(ctx, found.ID, "")
	}
	if _, lacks := errors.AsType[*content.AbsentError](err); lacks || errors.Is(err, mirror.ErrNoMirror) {
		c.absent.artifacts = append(c.absent.artifacts, wantedArtifact{need: need, artifact: found})
		return nil
	}
	from := &place{uid: found.UID, commit: found.ID, above: one.place, need: &need}
	if err != nil {
		return c.builder.blame(from, err)
	}
	sub := &chart{place: from, above: one}
	if sub.files, err = c.list(ctx, sub, tree); err != nil {
		return c.builder.blame(from, err)
	}
	read, ok, err := c.read(ctx, sub)
	switch {
	case err != nil:
		return err
	case !ok:
		return need.Unavailable("Its Chart.yaml cannot be read. Choose another version, and tell its publisher.")
	}
	if err := read.Fits(w); err != nil {
		return need.Unavailable("Its archive is not what it should be: %v. Choose another version, and tell its publisher.", err)
	}
	packed, err := c.packedNames(ctx, sub)
	if err != nil {
		return err
	}
	if names := read.Lacking(packed); len(names) > 0 {
		return need.Unavailable("Its archive does not hold its own dependencies: %s. "+
			"Publish it with them (helm dependency update, then helm package), or choose another version.", strings.Join(names, ", "))
	}
	return c.pack(one, sub, read)
}

// packFolder packs a dependency from the same commit.
func (c *completer) packFolder(ctx context.Context, one *chart, w chartdep.Wanted, need chartdep.Need, depth int) error {
	target, ok := chartdep.Within(one.origin, w.Local)
	switch {
	case !ok:
		return need.Unavailable("A file:// dependency has to be a relative path that stays in the repository.")
	case depth == maxPackedDepth:
		return need.Unavailable("It is nested deeper than %d dependencies in one repository.", maxPackedDepth)
	case one.isBuiltFrom(target):
		return need.Unavailable("It is a dependency of itself.")
	}
	r, err := c.mirrors.open(ctx, one.place.uid)
	if err != nil {
		return err
	}
	tree, err := r.Tree(ctx, one.place.commit, target)
	if errors.Is(err, content.ErrPathNotFound) {
		return need.Unavailable("The commit has no folder %q.", target)
	}
	if err != nil {
		return c.builder.blame(one.place, err)
	}
	if one.place.above == nil {
		c.trees[target] = tree
	}
	from := &place{
		uid: one.place.uid, commit: one.place.commit, link: one.place.link, above: one.place.above, copyOf: one.place,
	}
	sub := &chart{place: from, origin: target, above: one}
	if sub.files, err = c.list(ctx, sub, tree); err != nil {
		return c.builder.blame(one.place, err)
	}
	if err := c.checkTexts(ctx, []*chart{sub}); err != nil {
		return err
	}
	read, ok, err := c.read(ctx, sub)
	switch {
	case err != nil:
		return err
	case !ok:
		return need.Unavailable("The folder %q has no Chart.yaml that can be read.", target)
	}
	if err := read.Fits(w); err != nil {
		return need.Unavailable("The folder %q is not what it should be: %v. Correct one of the two, and run helm dependency update.", target, err)
	}
	if err := c.pack(one, sub, read); err != nil {
		return err
	}
	return c.complete(ctx, sub, depth+1)
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

// pack puts a dependency into the folder charts of a chart.
func (c *completer) pack(into, sub *chart, read chartdep.Chart) error {
	sub.at = strings.TrimPrefix(into.at+"/"+chartsFolder+"/"+read.PackedName(), "/")
	sub.place.prefix = sub.at + "/"
	if taken := below(into.files, sub.at); len(taken) > 0 {
		return &UnsupportedError{Path: sub.at, Reason: "is where a dependency of the chart is packed; remove it"}
	}
	for i := range sub.files {
		l := &sub.files[i]
		l.path = sub.place.prefix + l.path
		l.name = c.planner.nameOf(l.path)
	}
	limit := c.builder.params.Limits.Files
	if n := len(c.planner.leaves) + len(c.added) + len(sub.files); n > limit {
		return &bundle.LimitError{Limit: bundle.LimitFiles, Max: int64(limit), Name: sub.at}
	}
	c.added = append(c.added, sub.files...)
	return nil
}

// list returns all files of a tree, with paths relative to it.
func (c *completer) list(ctx context.Context, sub *chart, tree string) ([]leaf, error) {
	r, err := c.mirrors.open(ctx, sub.place.uid)
	if err != nil {
		return nil, err
	}
	walk := &lister{completer: c, reader: r, place: sub.place, room: c.builder.params.Limits.Files - len(c.planner.leaves) - len(c.added)}
	err = walk.add(ctx, "", tree, maxDepth)
	return walk.leaves, err
}

// lister lists a tree as it is, without a selection.
type lister struct {
	completer *completer
	reader    content.Reader
	place     *place
	room      int // for leaves
	leaves    []leaf
}

func (w *lister) add(ctx context.Context, prefix, tree string, depth int) error {
	if depth == 0 {
		return fmt.Errorf("walk tree: more than %d levels at %q", maxDepth, prefix)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	entries, err := w.reader.List(ctx, tree)
	if err != nil {
		return err
	}
	if w.completer.planner.toVisit -= len(entries); w.completer.planner.toVisit < 0 {
		return &UnsupportedError{Path: prefix, Reason: "comes after too much that has to be looked at for the dependencies of charts"}
	}
	for _, e := range entries {
		switch {
		case e.Kind == content.KindFolder:
			err = w.add(ctx, prefix+e.Name+"/", e.ID, depth-1)
		case e.Kind == content.KindSubmodule:
			err = &UnsupportedError{Path: prefix + e.Name, Reason: "is a submodule in a chart that another one depends on, which is not followed"}
		case len(w.leaves) == w.room:
			limit := w.completer.builder.params.Limits.Files
			err = &bundle.LimitError{Limit: bundle.LimitFiles, Max: int64(limit), Name: prefix + e.Name}
		default:
			w.leaves = append(w.leaves, leaf{path: prefix + e.Name, kind: e.Kind, id: e.ID, place: w.place})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
