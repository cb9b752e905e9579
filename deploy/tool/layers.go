package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// userID is the user and the group that the host runs as. 65532 is "nonroot" in distroless images,
// too, and no user of a usual system.
const userID = 65532

const hostPath = "/usr/bin/pilothouse"

// entry is a file or, if its name ends in a slash, a directory.
type entry struct {
	name    string
	mode    int64
	owner   int
	content []byte
}

// baseLayer has all but the host: where it finds the certificates of public authorities, the account
// that it runs as, and the directories that it writes to.
func baseLayer(created time.Time) (v1.Layer, error) {
	passwd := fmt.Sprintf("root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:%[1]d:%[1]d:nonroot:/home/nonroot:/sbin/nologin\n", userID)
	group := fmt.Sprintf("root:x:0:\nnonroot:x:%d:\n", userID)
	return layer(created, []entry{
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, content: []byte(group)},
		{name: "etc/passwd", mode: 0o644, content: []byte(passwd)},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: certificates()},
		{name: "home/", mode: 0o755},
		{name: "home/nonroot/", mode: 0o700, owner: userID},
		{name: "plugins/", mode: 0o755},
		{name: "run/", mode: 0o755, owner: userID},
		{name: "tmp/", mode: 0o1777},
		{name: "usr/", mode: 0o755},
		{name: "usr/bin/", mode: 0o755},
		{name: "var/", mode: 0o755},
		{name: "var/cache/", mode: 0o755, owner: userID},
		{name: "var/lib/", mode: 0o755, owner: userID},
	})
}

func binaryLayer(binary string, created time.Time) (v1.Layer, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	return layer(created, []entry{{name: hostPath[1:], mode: 0o755, content: content}})
}

// certificates are Mozilla's, of the module's version that go.sum names, without those that are
// trusted only up to some date: PEM cannot say that.
func certificates() []byte {
	text := bytes.Buffer{}
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return text.Bytes()
}

func layer(created time.Time, entries []entry) (v1.Layer, error) {
	archive := bytes.Buffer{}
	writer := tar.NewWriter(&archive)
	for _, one := range entries {
		header := tar.Header{Name: one.name, Mode: one.mode, Uid: one.owner, Gid: one.owner, ModTime: created,
			Typeflag: tar.TypeReg, Size: int64(len(one.content)), Format: tar.FormatUSTAR}
		if one.name[len(one.name)-1] == '/' {
			header.Typeflag = tar.TypeDir
		}
		if err := writer.WriteHeader(&header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(one.content); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}
