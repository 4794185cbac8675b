import jupyter from '@jupyter/eslint-plugin';
import tseslint from 'typescript-eslint';

export default tseslint.config({
  files: ['src/**/*.{ts,tsx}'],
  extends: [tseslint.configs.recommended],
  plugins: { jupyter },
  rules: {
    '@typescript-eslint/no-explicit-any': 'error',
    '@typescript-eslint/no-namespace': 'off', // JupyterLab's IOptions convention
    eqeqeq: 'error',
    'no-restricted-globals': ['error', 'fetch', 'WebSocket', 'setInterval'],
    'jupyter/plugin-activation-args': 'error',
    'jupyter/command-described-by': 'error',
    'jupyter/command-id-convention': 'error',
    'jupyter/plugin-description': 'error',
    'jupyter/plugin-id-convention': 'error',
    'jupyter/no-translation-concatenation': 'error',
    'jupyter/no-dynamic-translation': 'error',
    'jupyter/token-format': 'error',
    'jupyter/no-untranslated-string': 'error',
    'jupyter/no-pageconfig-base-url': 'error'
  }
});
