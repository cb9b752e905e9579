package server

import (
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfig gives its holder the built-in admin's access.
type kubeconfig struct {
	path   string
	server string
	ca     []byte
	token  string
}

// write appears at once and whole, so that a test may wait for the file.
func (k kubeconfig) write() error {
	if k.path == "" {
		return nil
	}
	const name = "pilothouse-test"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: k.server, CertificateAuthorityData: k.ca}
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: k.token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: "admin"}
	config.CurrentContext = name
	content, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return writeFile(k.path, content)
}

// writeFile replaces a file in one step. It may hold a secret.
func writeFile(path string, content []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	if _, err := temporary.Write(content); err != nil {
		temporary.Close()
		return err
	}
	if err := temporary.Close(); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}
